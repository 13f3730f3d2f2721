package ptymcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

const password = "c0rrect-horse?battery"

// passwordFile returns the path of a file that contains the password.
func passwordFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asks is a script that asks for a password after a short time. It prints the password in pieces
// and encoded, and prints whether the password was right.
const asks = `sleep 0.2; stty size >/dev/null; read -rsp 'Password: ' p; echo; echo "got $p"; printf '%s' "${p:0:9}"; printf '%s\n' "${p:9}"; printf '%s' "$p" | base64
[ "$(printf '%s' "$p" | sha256sum)" = '0815bc20c700c34825297362dfc800de5c939e8087f95576809584929a660d4e  -' ] && echo right; cat`

// TestSecretIsHidden sends a secret to a program. It checks that no tool that returns output shows
// the secret.
func TestSecretIsHidden(t *testing.T) {
	for _, backend := range []string{"subprocess", "tmux"} {
		t.Run(backend, func(t *testing.T) {
			logs := t.TempDir()
			w := newWorld(t, env{"SESSION_LOG_DIR": logs})
			id := w.spawn(t, asks, args{"backend": backend})
			if r := w.text(t, "pty_send_secret", args{"session_id": id, "file": passwordFile(t)}); r != "ok" {
				t.Fatal(r)
			}
			text := w.until(t, id, "right\r\n")
			if strings.Count(text, secret.Hidden) != 3 {
				t.Errorf("it printed %q", text)
			}
			w.text(t, "pty_write", args{"session_id": id, "data": password + "\n"}) // the terminal and cat both echo the password
			text += w.until(t, id, "REDACTED]\r\n"+secret.Hidden+"\r\n")
			text += fmt.Sprint(w.object(t, "pty_read_at", args{"session_id": id}), w.object(t, "pty_screen", args{"session_id": id}), w.object(t, "pty_status", args{"session_id": id}))
			w.text(t, "pty_close", args{"session_id": id})
			seen := 0
			for _, folder := range []string{logs, w.root} {
				filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
					if err == nil && e.Type().IsRegular() {
						b, _ := os.ReadFile(path)
						text += string(b)
						seen++
					}
					return err
				})
			}
			if seen < 4 || strings.Contains(text, password) || strings.Contains(text, password[:9]) {
				t.Errorf("%d files; the password is in:\n%s", seen, text)
			}
			if !strings.Contains(text, `"event":"secret"`) {
				t.Error("its event is missing")
			}
		})
	}
}

// TestSecretAccess checks that calls fail if they would reveal a secret or type the wrong
// file.
func TestSecretAccess(t *testing.T) {
	t.Setenv("PYRO_TEST_PASSWORD", password)
	t.Setenv("PYRO_TEST_SHORT", "abc")
	t.Setenv("PYRO_TEST_LINES", "abcdef\nghi")
	t.Setenv("PYRO_TEST_HARM", "rm -rf /home")
	w := newWorld(t, env{})
	id := w.spawn(t, "PS1='> ' exec bash --norc")
	w.until(t, id, "> ")
	file := passwordFile(t)
	no := func(a args, kind fault.Kind, says string) {
		t.Helper()
		a["session_id"] = id
		w.refused(t, "pty_send_secret", a, kind, says)
	}
	no(args{}, fault.Invalid, "one of file, variable and person")
	no(args{"file": file, "variable": "HOME"}, fault.Invalid, "one of file, variable and person")
	no(args{"file": file, "variable": "HOME", "person": true}, fault.Invalid, "one of file, variable and person")
	no(args{"file": file, "timeout_ms": 30}, fault.Precondition, "nothing was typed")
	no(args{"file": file + "not"}, fault.NotFound, "no such file")
	no(args{"file": filepath.Dir(file)}, fault.Invalid, "is not a file")
	no(args{"file": "/dev/zero"}, fault.Invalid, "is not a file")
	no(args{"variable": "PYRO_TEST_NONE"}, fault.NotFound, "no environment variable")
	no(args{"variable": "PYRO_TEST_SHORT"}, fault.Invalid, "fewer than 4")
	no(args{"variable": "PYRO_TEST_LINES"}, fault.Invalid, "more than one line")
	no(args{"variable": "PYRO_TEST_HARM", "shown": true}, fault.Permission, "dangerous command")
	no(args{"variable": "PYRO_TEST_HARM"}, fault.Permission, "dangerous command")
	admin := w.spawn(t, "stty -echo; exec sh", args{"scope": "admin"})
	w.refused(t, "pty_send_secret", args{"session_id": admin, "variable": "PYRO_TEST_HARM"}, fault.Permission, "dangerous command")
	w.text(t, "pty_write", args{"session_id": id, "data": "echo "})
	w.text(t, "pty_send_secret", args{"session_id": id, "variable": "PYRO_TEST_PASSWORD", "shown": true, "enter": false})
	w.text(t, "pty_write", args{"session_id": id, "data": "; echo $(( 6 * 7 ))\n"})
	if text := w.until(t, id, "42\r\n"); strings.Contains(text, password) || strings.Count(text, secret.Hidden) != 2 {
		t.Errorf("it printed %q", text)
	}
	readOnly := w.spawn(t, "cat", args{"scope": "read-only"})
	w.refused(t, "pty_send_secret", args{"session_id": readOnly, "file": file}, fault.Permission, "does not allow tool")
	w.object(t, "pty_attach", args{"session_id": id, "client_id": "a"})
	no(args{"file": file}, fault.Precondition, "attached to a")
	no(args{"file": file, "client_id": "b"}, fault.Precondition, "attached to the client")
	w.object(t, "pty_detach", args{"session_id": id, "client_id": "a"})

	named := w.restarted(t, env{"SECRETS": " PYRO_TEST_PASSWORD ; " + file})
	for _, a := range []args{{"variable": "PYRO_TEST_PASSWORD"}, {"file": file}} {
		a["session_id"], a["shown"] = id, true
		named.text(t, "pty_send_secret", a)
	}
	for _, a := range []args{{"variable": "HOME"}, {"file": "/etc/passwd"}} {
		a["session_id"], a["shown"] = id, true
		named.refused(t, "pty_send_secret", a, fault.Permission, "PTY_MCP_SECRETS")
	}
	if _, _, err := w.secretOf(secretRequest{File: file}, session.Workspace); fault.KindOf(err) != fault.Permission {
		t.Errorf("into a workspace: %v", err)
	}
	if v, _, err := named.secretOf(secretRequest{File: file}, session.Workspace); err != nil || v.Reveal() != password {
		t.Errorf("into a workspace, named: %v", err)
	}
	w.text(t, "pty_close", args{"session_id": id})
	no(args{"file": file}, fault.NotFound, "unknown session_id")
}

// TestPersonTypesSecret asks a person, who types the secret where the agent does not see it.
func TestPersonTypesSecret(t *testing.T) {
	w := newWorld(t, env{})
	id := w.spawn(t, asks)
	w.refused(t, "pty_send_secret", args{"session_id": id, "person": true}, fault.Unsupported, "can't ask a person")
	types := func() {
		info, err := w.sessions.Get(id)
		if err == nil {
			_, err = info.Ask(t.Context(), session.Request{Op: session.OpSecret, Secret: password, From: session.FromPerson, Timeout: defaultPatience})
		}
		if err != nil {
			t.Error(err)
		}
	}
	does := "refuses"
	var asked string
	c := w.client(t, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		switch asked = r.Params.Message; does {
		case "refuses":
			return &sdk.ElicitResult{Action: "decline"}, nil
		case "types":
			types()
		}
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}})
	call := func() (bool, string) {
		t.Helper()
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "pty_send_secret", Arguments: args{"session_id": id, "owner": "me", "person": true, "why": "to \x1b[31minstall"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.IsError, r.Content[0].(*sdk.TextContent).Text
	}
	for _, c := range []struct {
		does   string
		failed bool
		says   string
	}{{"refuses", true, "did not agree"}, {"says that it did", true, "typed nothing"}, {"types", false, "ok"}} {
		does = c.does
		if failed, says := call(); failed != c.failed || !strings.Contains(says, c.says) {
			t.Errorf("the person %s: %v, %s", c.does, failed, says)
		}
		if !strings.Contains(asked, "pyro pty send-secret "+id) || strings.Contains(asked, "\x1b") {
			t.Errorf("asked %q", asked)
		}
	}
	if text := w.until(t, id, "right\r\n"); strings.Contains(text, password) {
		t.Errorf("it printed %q", text)
	}
}

// TestSecretIsHiddenAfterwards kills the session process and the log writer of a tmux session. It
// checks that earlier secrets are still redacted.
func TestSecretIsHiddenAfterwards(t *testing.T) {
	w := newWorld(t, env{})
	id := w.spawn(t, "cat", args{"backend": "tmux", "name": "it"})
	w.text(t, "pty_send_secret", args{"session_id": id, "file": passwordFile(t), "shown": true})
	w.until(t, id, secret.Hidden+"\r\n"+secret.Hidden+"\r\n")
	info, err := w.sessions.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range processesOf(t, info.Folder) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the session process has ended", func() bool { return !info.Folder.HasProcess() })
	w.object(t, "pty_recover", args{"name": "it"})
	w.text(t, "pty_write", args{"session_id": id, "data": "again " + password + ".\n"})
	if text := w.until(t, id, ".\r\nagain "+secret.Hidden+".\r\n"); strings.Contains(text, password) {
		t.Errorf("it printed %q", text)
	}
}

// processesOf returns the processes that have a session's folder, or the log in that folder, as an
// argument.
func processesOf(t *testing.T, f session.Folder) (pids []int) {
	t.Helper()
	for deadline := time.Now().Add(testenv.Patience); len(pids) < 2 && time.Now().Before(deadline); {
		pids = nil
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, line := range lines {
			b, _ := os.ReadFile(line)
			words := strings.Split(string(b), "\x00")
			if len(words) > 2 && words[1] == session.Command && (words[2] == string(f) || words[2] == string(f)+"/output") {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	return pids
}
