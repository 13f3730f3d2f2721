package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const token = "hunter2-correct-horse"

// trust gives a workspace whose machine was not started yet a secret.
func (h *home) trust(t *testing.T) {
	t.Helper()
	key, err := secret.OpenKey(h.order.Dirs.State)
	check(t, err)
	s := secret.Secret{Name: "TOKEN", Source: secret.Literal, Value: secret.New(token)}
	h.order.Workspace.Secrets = []store.Secret{{Name: s.Name, Source: string(s.Source), Sealed: key.Seal(h.order.Workspace.ID, s)}}
}

// TestSecretsAreShownNowhere has a command with a secret print it, fail by it and crash; then its supervisor crashes.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	h := furnish(t, nil)
	h.trust(t)
	c := h.live(t)
	with := remote.SecretEnv{Secret: "TOKEN", Env: "T"}
	var out, errs bytes.Buffer
	exit, err := c.Exec(t.Context(), sh(`test "$T" = `+token+` && echo "is $T"; printf %s "${T%horse}" >&2; sleep 0.3; echo horse >&2`), nil, &out, &errs, with)
	if err != nil || exit.Code != 0 || out.String() != "is [REDACTED]\n" || errs.String() != "[REDACTED]\n" {
		t.Errorf("%q, %q, %+v, %v", out.String(), errs.String(), exit, err)
	}
	exit, err = c.Exec(t.Context(), client.Command{Argv: []string{"/no/" + token}, Cwd: "/"}, nil, nil, nil)
	if err != nil || exit.Message == "" || strings.Contains(exit.Message, token) {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := c.OpenShell(t.Context(), client.Command{Argv: []string{"/no/" + token}, TTY: &client.Terminal{Cols: 1, Rows: 1}}); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("a shell that can't be opened: %v", err)
	}
	_, err = c.Exec(t.Context(), sh("true"), nil, nil, nil, remote.SecretEnv{Secret: "OTHER", Env: "T"})
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "it has TOKEN") {
		t.Errorf("one that is not there: %v", err)
	}
	for _, row := range h.history(t) {
		if text := strings.Join(row.Argv, " ") + string(row.Stdout) + string(row.Stderr) + row.Result.NotRun; strings.Contains(text, token) {
			t.Errorf("the history has %q", text)
		}
	}
	check(t, only(c.OpenShell(t.Context(), client.Command{Argv: []string{"sleep", "1000"}, TTY: &client.Terminal{Cols: 1, Rows: 1}}, with)))
	running := make(chan struct{})
	go c.Exec(context.WithoutCancel(t.Context()), client.Command{Argv: []string{"sh", "-c", "echo runs; sleep 1000"}}, nil, writer(func([]byte) { close(running) }), nil, with)
	<-running
	s, err := c.Status(t.Context())
	check(t, err)
	check(t, syscall.Kill(s.PID, syscall.SIGABRT)) // upon which Go's runtime tells all that it knows
	h.ended(t)
	log, err := os.ReadFile(filepath.Join(string(h.folder), "log"))
	check(t, err)
	if !bytes.Contains(log, []byte("goroutine ")) || bytes.Contains(log, []byte(token)) {
		t.Errorf("the log is %.300q", log)
	}
	for _, top := range []string{h.order.Dirs.State} {
		filepath.Walk(top, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(token)) {
					t.Errorf("%s holds it", path)
				}
			}
			return nil
		})
	}
}

// TestSecretsOnATerminal has a shell print a secret slowly, in colours, and by moving the cursor.
func TestSecretsOnATerminal(t *testing.T) {
	t.Parallel()
	h := furnish(t, nil)
	h.trust(t)
	c := h.live(t)
	u := open(t, c, `T=`+token+`; i=0
		while [ $i -lt 20 ]; do printf "%.1s" "$T"; T=${T#?}; sleep 0.05; i=$((i+1)); done; printf '%s\n' "$T"
		T=`+token+`; while [ -n "$T" ]; do printf '\033[3%dm%.1s' $((${#T}%8)) "$T"; T=${T#?}; done; echo
		printf 'correct-horse\rhunter2-\033[4D\033[Ker2-correct-horse\n'
		printf '        correct-horse\rhunter2-\n'; echo done`)
	text := u.await("done")
	out, err := c.ReadShell(t.Context(), remote.ShellRead{ID: u.id, Chars: 4096, Plain: true})
	check(t, err)
	plain := string(out.Plain)
	if strings.Count(plain, secret.Hidden) != 4 || strings.Contains(plain, token[:7]) || strings.Contains(text, token) {
		t.Errorf("%q, plainly %q", text, plain)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// TestSecretsThatCantBeOpened keeps a machine from starting without them.
func TestSecretsThatCantBeOpened(t *testing.T) {
	t.Parallel()
	h := furnish(t, nil)
	h.trust(t)
	h.order.Workspace.Secrets[0].Name = "OTHER"
	_, err := remote.Start(t.Context(), os.Args[0], h.order, nil)
	if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "sealed with another key") {
		t.Errorf("%v", err)
	}
	h.ended(t)
}
