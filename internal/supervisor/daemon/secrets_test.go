package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

const token = "hunter2-correct-horse"

// trust adds a secret to a workspace that has no machine yet.
func (h *home) trust(t *testing.T) {
	t.Helper()
	key, err := secret.OpenKey(h.config.Dirs.State)
	check(t, err)
	s := secret.Secret{Name: "TOKEN", Source: secret.Literal, Value: secret.New(token)}
	h.config.Workspace.Secrets = []store.Secret{{Name: s.Name, Source: string(s.Source), Sealed: key.Seal(h.config.Workspace.ID, s)}}
}

// TestSecretsAreRedacted checks that a secret is redacted when a program prints it, fails with
// it or crashes with it. It also checks the log after a crash of the supervisor.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	h.trust(t)
	c := h.live(t)
	with := func(c program.Command) program.Command {
		c.Secrets = []program.SecretEnv{{Secret: "TOKEN", Env: "T"}}
		return c
	}
	var out, errs bytes.Buffer
	exit, err := c.Exec(t.Context(), with(sh(`test "$T" = `+token+` && echo "is $T"; printf %s "${T%horse}" >&2; sleep 0.3; echo horse >&2`)), program.Attach{Stdout: &out, Stderr: &errs})
	if err != nil || exit.Code != 0 || out.String() != "is [REDACTED]\n" || errs.String() != "[REDACTED]\n" {
		t.Errorf("%q, %q, %+v, %v", out.String(), errs.String(), exit, err)
	}
	exit, err = c.Exec(t.Context(), program.Command{Argv: []string{"/no/" + token}, Cwd: "/"}, program.Attach{})
	if err != nil || exit.NotRun == "" || strings.Contains(exit.NotRun, token) {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := c.OpenShell(t.Context(), program.Command{Argv: []string{"/no/" + token}, TTY: &program.Terminal{Cols: 1, Rows: 1}}); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("a shell that can't be opened: %v", err)
	}
	other := sh("true")
	other.Secrets = []program.SecretEnv{{Secret: "OTHER", Env: "T"}}
	_, err = c.Exec(t.Context(), other, program.Attach{})
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "it has TOKEN") {
		t.Errorf("missing secret: got %v", err)
	}
	for _, row := range h.history(t) {
		if text := strings.Join(row.Argv, " ") + string(row.Stdout) + string(row.Stderr) + row.Result.NotRun; strings.Contains(text, token) {
			t.Errorf("the history has %q", text)
		}
	}
	check(t, only(c.OpenShell(t.Context(), with(program.Command{Argv: []string{"sleep", "1000"}, TTY: &program.Terminal{Cols: 1, Rows: 1}}))))
	running := make(chan struct{})
	go c.Exec(context.WithoutCancel(t.Context()), with(program.Command{Argv: []string{"sh", "-c", "echo runs; sleep 1000"}}), program.Attach{Stdout: writer(func([]byte) { close(running) })})
	<-running
	s, err := c.Status(t.Context())
	check(t, err)
	check(t, syscall.Kill(s.PID, syscall.SIGABRT)) // makes the Go runtime print all stacks
	h.ended(t)
	log, err := os.ReadFile(filepath.Join(string(h.folder), "log"))
	check(t, err)
	if !bytes.Contains(log, []byte("goroutine ")) || bytes.Contains(log, []byte(token)) {
		t.Errorf("the log is %.300q", log)
	}
	for _, top := range []string{h.config.Dirs.State} {
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

// TestSecretsOnTerminal checks that a secret is redacted if a program prints it slowly, in
// colours, or by moving the cursor.
func TestSecretsOnTerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
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

// TestUnopenableSecrets checks that a machine does not start without its secrets.
func TestUnopenableSecrets(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	h.trust(t)
	h.config.Workspace.Secrets[0].Name = "OTHER"
	_, err := remote.Start(t.Context(), os.Args[0], h.config, nil)
	if fault.KindOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "sealed with another key") {
		t.Errorf("%v", err)
	}
	h.ended(t)
}
