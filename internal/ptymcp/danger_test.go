package ptymcp

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/confirm"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// harmless is a harmless command that these tests configure as dangerous.
const harmless = "echo boom"

var patterned = env{"DANGEROUS_PATTERNS": `\bboom\b`}

func requestOf(command string) confirm.Request {
	return confirm.Request{Command: command, Owner: "me", Scope: "read-write"}
}

func TestConfirmations(t *testing.T) {
	w := newWorld(t, patterned)
	confirm := func(a args) map[string]any { return w.object(t, "confirm_dangerous_command", a) }
	if r := confirm(args{"command": "echo hello"}); r["ok"] != true || r["dangerous"] != false || len(r["matches"].([]any)) != 0 || len(r) != 3 {
		t.Errorf("%v", r)
	}
	for _, why := range []any{nil, "", " \n"} {
		w.refused(t, "confirm_dangerous_command", args{"command": harmless, "justification": why}, fault.Invalid, "justification is required")
	}
	w.refused(t, "confirm_dangerous_command", args{"command": " "}, fault.Invalid, "command is required")
	w.refused(t, "pty_spawn", args{"command": harmless}, fault.Permission, "dangerous command detected; confirmation token required")
	w.refused(t, "pty_spawn", args{"command": harmless, "dangerous_confirmed": true, "dangerous_justification": "j"}, fault.Permission, "confirmation token required")
	r := confirm(args{"command": harmless, "justification": "test", "owner": "me", "scope": "admin"})
	token := r["confirm_token"].(string)
	if r["ok"] != true || !strings.HasPrefix(token, "dc_") || len(token) != 35 || r["expires_at"].(float64) < 1e9 {
		t.Errorf("%v", r)
	}
	spawn := args{"command": harmless, "dangerous_confirm_token": token, "scope": "admin"}
	for says, a := range map[string]args{
		"confirmation token command mismatch":   {"command": harmless + " x", "dangerous_confirm_token": token, "scope": "admin"},
		"confirmation token owner mismatch":     {"command": harmless, "dangerous_confirm_token": token, "scope": "admin", "owner": "other"},
		"confirmation token scope mismatch":     {"command": harmless, "dangerous_confirm_token": token},
		"confirmation token invalid or expired": {"command": harmless, "dangerous_confirm_token": "dc_" + strings.Repeat("0", 32), "scope": "admin"},
	} {
		w.refused(t, "pty_spawn", a, fault.Permission, says)
	}
	w.text(t, "pty_spawn", spawn)
	w.refused(t, "pty_spawn", spawn, fault.Permission, "confirmation token already used")
}

func TestLegacyConfirmation(t *testing.T) {
	w := newWorld(t, env{"DANGEROUS_PATTERNS": "boom", "DANGEROUS_LEGACY_MODE": "1"})
	w.refused(t, "pty_spawn", args{"command": harmless}, fault.Permission, "dangerous command detected; use confirm_dangerous_command")
	w.text(t, "pty_spawn", args{"command": harmless, "dangerous_confirmed": "true"})
	w.text(t, "pty_spawn", args{"command": harmless, "dangerous_justification": "j"})
}

// TestTyped checks that typed input is checked line by line, at the end of each line.
func TestTyped(t *testing.T) {
	w := newWorld(t, patterned)
	id := w.spawn(t, "cat")
	refused := func(a args) {
		t.Helper()
		a["session_id"] = id
		w.refused(t, "pty_write", a, fault.Permission, "dangerous command detected; confirmation token required")
	}
	refused(args{"data": "hello\n" + harmless + "\n"})
	refused(args{"data": harmless, "keys": []string{"enter"}})
	w.text(t, "pty_write", args{"session_id": id, "data": "echo bo"})
	refused(args{"data": "om\r"})
	w.refused(t, "pty_prompt", args{"session_id": id, "data": "om\n", "patterns": []string{"x"}}, fault.Permission, "confirmation token required")
	w.text(t, "pty_write", args{"session_id": id, "keys": []string{"ctrl-u"}})
	if text := w.text(t, "pty_read", args{"session_id": id}); strings.Contains(text, "boom") {
		t.Errorf("refused input was typed: %q", text)
	}
	r := w.object(t, "confirm_dangerous_command", args{"command": harmless, "justification": "j", "session_id": id, "owner": "me"})
	token, ok := r["confirm_token"]
	if !ok {
		t.Fatalf("%v", r)
	}
	w.refused(t, "pty_spawn", args{"command": harmless, "dangerous_confirm_token": token}, fault.Permission, "command mismatch")
	w.text(t, "pty_write", args{"session_id": id, "data": harmless + "\n", "dangerous_confirm_token": token})
	w.until(t, id, harmless)
	w.refused(t, "pty_write", args{"session_id": id, "data": harmless + "\n", "dangerous_confirm_token": token}, fault.Permission, "already used")

	for _, scope := range []string{"control", "admin"} { // callers choose the scope themselves, so it must not matter
		other := w.spawn(t, "cat", args{"scope": scope})
		w.refused(t, "pty_write", args{"session_id": other, "data": harmless + "\n"}, fault.Permission, "confirmation token required")
		w.text(t, "pty_write", args{"session_id": other, "data": strings.Repeat("a long paste\n", 10000)})
	}
	unchecked := w.restarted(t, env{"DANGEROUS_PATTERNS": "boom", "CHECK_WRITES": "0"})
	unchecked.text(t, "pty_write", args{"session_id": id, "data": harmless + "\n"})
}

// TestPersonIsAsked checks that the client asks the person, and that the person's answer decides.
func TestPersonIsAsked(t *testing.T) {
	w := newWorld(t, patterned)
	answer := "accept"
	var asked []string
	c := w.client(t, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked = append(asked, r.Params.Message)
		return &sdk.ElicitResult{Action: answer}, nil
	}})
	call := func(tool string, a args) (text string, failed bool) {
		t.Helper()
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
		if err != nil {
			t.Fatal(err)
		}
		return r.Content[0].(*sdk.TextContent).Text, r.IsError
	}
	if text, failed := call("pty_spawn", args{"command": harmless, "owner": "me"}); failed || len(asked) != 1 || !strings.Contains(asked[0], harmless) || !strings.Contains(asked[0], `"me"`) {
		t.Errorf("%s, %q", text, asked)
	}
	id, _ := call("pty_spawn", args{"command": "cat", "owner": "me"})
	if text, failed := call("pty_write", args{"session_id": id, "owner": "me", "data": harmless + "\n"}); failed || len(asked) != 2 {
		t.Errorf("%s, %q", text, asked)
	}
	w.until(t, id, harmless)
	if text, _ := call("confirm_dangerous_command", args{"command": harmless, "owner": "me", "justification": "because"}); !strings.Contains(text, `"confirm_token":"dc_`) || len(asked) != 3 || !strings.Contains(asked[2], "because") {
		t.Errorf("%s, %q", text, asked)
	}
	for _, answer = range []string{"decline", "cancel"} {
		for tool, a := range map[string]args{"pty_spawn": {"command": harmless, "owner": "me"}, "pty_write": {"session_id": id, "data": harmless + "\n", "owner": "me"}} {
			if text, failed := call(tool, a); !failed || !strings.Contains(text, "did not agree") {
				t.Errorf("%s: %s", tool, text)
			}
		}
		if text, _ := call("confirm_dangerous_command", args{"command": harmless, "justification": "j"}); !strings.Contains(text, `"ok":false`) || strings.Contains(text, "dc_") {
			t.Error(text)
		}
	}
}

// TestSpawnFolder checks that the folder and the variables of a command matter. A confirmation can
// omit the folder, as in the contract.
func TestSpawnFolder(t *testing.T) {
	w := newWorld(t, nil)
	for _, spawn := range []args{
		{"command": "rm -rf nosuch-folder/x", "cwd": "/"},
		{"command": "git status", "cwd": "/", "env": map[string]string{"PAGER": "rm -rf /nosuch-folder/x"}},
	} {
		w.refused(t, "pty_spawn", spawn, fault.Permission, "confirmation token required")
		confirm := args{"command": spawn["command"], "justification": "it is a test", "owner": "me", "env": spawn["env"]}
		r := w.object(t, "confirm_dangerous_command", confirm)
		if r["confirm_token"] == nil || r["dangerous"] != (spawn["env"] != nil) {
			t.Fatalf("%v: %v", spawn, r)
		}
		spawn["dangerous_confirm_token"] = r["confirm_token"]
		w.text(t, "pty_spawn", spawn)
	}
	w.text(t, "pty_spawn", args{"command": "rm -rf nosuch-folder/x", "cwd": t.TempDir()})
	if r := w.object(t, "confirm_dangerous_command", args{"command": "rm -rf nosuch-folder/x"}); r["dangerous"] != false {
		t.Errorf("%v", r)
	}
	w.text(t, "pty_spawn", args{"command": "rm -rf nosuch-folder/x"})
}

// TestShellFolder checks that the shell's current folder matters, even right after a cd.
func TestShellFolder(t *testing.T) {
	w := newWorld(t, nil)
	folder := t.TempDir()
	id := w.spawn(t, "PS1='$ ' exec bash --norc --noediting", args{"cwd": folder})
	types := func(line string) { t.Helper(); w.text(t, "pty_write", args{"session_id": id, "data": line}) }
	asks := func(line string) {
		t.Helper()
		w.refused(t, "pty_write", args{"session_id": id, "data": line}, fault.Permission, "confirmation token required")
	}
	w.until(t, id, "$ ")
	types("rm -rf nosuch-folder\n")
	w.until(t, id, "$ ") // if rm still ran, it would read the text
	asks("cd /\nrm -rf nosuch-folder\n")
	types("cd /\n")
	asks("rm -rf nosuch-folder\n")
	w.until(t, id, "$ ")
	asks("rm -rf nosuch-folder\n")
	types("cd '" + folder + "'; echo back\n")
	w.until(t, id, "back\r\n$ ")
	types("rm -rf nosuch-folder\n")
}
