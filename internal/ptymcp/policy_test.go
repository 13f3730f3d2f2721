package ptymcp

import (
	"encoding/json"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestOwner checks that only the owner can use a session, unless the configuration allows others.
func TestOwner(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1"})
	id := w.spawn(t, "sleep 1000", args{"name": "n"})
	calls := map[string]args{
		"pty_attach": {"client_id": "c"}, "pty_detach": {"client_id": "c"}, "pty_handoff": {"client_id": "c", "target_client_id": "d"},
		"pty_takeover": {"client_id": "d", "from_client_id": "c"}, "pty_read": {}, "pty_read_stdout": {}, "pty_read_stderr": {}, "pty_read_at": {},
		"pty_read_until": {"pattern": "x"}, "pty_read_until_any": {"patterns": []string{"x"}}, "pty_read_quiescent": {}, "pty_prompt": {"data": "x", "patterns": []string{"x"}},
		"pty_write": {"data": "x"}, "pty_resize": {"cols": 1, "rows": 1}, "pty_close": {}, "pty_status": {}, "pty_wait": {}, "pty_screen": {}, "pty_signal": {"sig": "TERM"},
	}
	for tool, a := range calls {
		a["session_id"] = id
		a["owner"] = "other"
		w.refused(t, tool, a, fault.Permission, "session owner mismatch")
		a["owner"] = ""
		w.refused(t, tool, a, fault.Permission, "owner is required for this session")
		a["owner"] = nil
		w.refused(t, tool, a, fault.Invalid, "owner is required")
	}
	w.refused(t, "confirm_dangerous_command", args{"command": "reboot", "session_id": id, "owner": "other"}, fault.Permission, "session owner mismatch")
	for tool, a := range map[string]args{"pty_spawn": {"command": "true"}, "pty_list": {}, "pty_resume": {"name": "n"}, "pty_recover": {"name": "n"}} {
		a["owner"] = ""
		w.refused(t, tool, a, fault.Permission, "owner is required for ")
		a["owner"] = nil
		w.refused(t, tool, a, fault.Invalid, "owner is required")
	}
	w.refused(t, "pty_resume", args{"name": "n", "owner": "other"}, fault.NotFound, "no session has this name and owner")
	if list := w.text(t, "pty_list", args{"owner": "other"}); list != "[]" {
		t.Error(list)
	}
	free := w.restarted(t, env{"REQUIRE_OWNER": "0"})
	for _, a := range []args{{"session_id": id, "owner": nil}, {"session_id": id, "owner": "other"}} {
		if st := free.object(t, "pty_status", a); st["owner"] != "me" {
			t.Errorf("%v", st)
		}
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(free.text(t, "pty_list", args{"owner": nil})), &all); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	anybody := free.spawn(t, "sleep 1000", args{"owner": nil})
	w.object(t, "pty_status", args{"session_id": anybody, "owner": "whoever"})
}

// TestScopes checks which tools each scope allows.
func TestScopes(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1"})
	for scope, allowed := range map[string][3]bool{"read-only": {}, "read-write": {true, true}, "control": {true, true, true}, "admin": {true, true, true}} {
		id := w.spawn(t, "trap '' HUP; sleep 1000", args{"scope": scope})
		w.text(t, "pty_read", args{"session_id": id, "timeout_ms": 0})
		w.object(t, "pty_status", args{"session_id": id})
		w.object(t, "pty_attach", args{"session_id": id, "client_id": "c"})
		for i, call := range []struct {
			tool string
			args args
		}{{"pty_write", args{"data": "x"}}, {"pty_resize", args{"cols": 80, "rows": "24"}}, {"pty_signal", args{"sig": "SIGHUP"}}} {
			call.args["session_id"], call.args["client_id"] = id, "c"
			if allowed[i] {
				if _, err := w.try(t, call.tool, call.args); err != nil {
					t.Errorf("%s %s: %v", scope, call.tool, err)
				}
			} else {
				w.refused(t, call.tool, call.args, fault.Permission, "scope '"+scope+"' does not allow tool '"+call.tool+"'")
			}
		}
		if scope == "read-only" {
			w.refused(t, "pty_write", args{"session_id": id, "data": "x"}, fault.Permission, "read-only session")
			w.refused(t, "pty_prompt", args{"session_id": id, "data": "x", "patterns": []string{"x"}}, fault.Permission, "does not allow tool 'pty_prompt'")
			w.refused(t, "pty_close", args{"session_id": id, "client_id": "c"}, fault.Permission, "does not allow tool 'pty_close'")
		}
	}
	w.refused(t, "pty_spawn", args{"command": "x", "scope": "root"}, fault.Invalid, "")
}

// TestLeases checks the tools that consume output or change a session. Only the client that has
// claimed the session can call them.
func TestLeases(t *testing.T) {
	w := newWorld(t, env{"ENABLE_CONTROL_TOOLS": "1"})
	id := w.spawn(t, "trap '' HUP; echo ready; sleep 1000", args{"scope": "control", "separate_streams": true, "name": "n"})
	w.until(t, id, "ready") // before the shell sets its trap, HUP would end it
	destructive := map[string]args{
		"pty_read": {"timeout_ms": 0}, "pty_read_stdout": {"timeout_ms": 0}, "pty_read_stderr": {"timeout_ms": 0}, "pty_read_until": {"pattern": "x", "timeout_ms": 0},
		"pty_read_until_any": {"patterns": []string{"x"}, "timeout_ms": 0}, "pty_read_quiescent": {"timeout_ms": 0},
		"pty_prompt": {"data": "x", "patterns": []string{"x"}, "timeout_ms": 0}, "pty_write": {"data": "x"}, "pty_resize": {"cols": 80, "rows": 24}, "pty_signal": {"sig": "HUP"},
		"pty_close": {},
	}
	claim := w.object(t, "pty_attach", args{"session_id": id, "client_id": "a"})
	if claim["ok"] != true || claim["attached_client_id"] != "a" || claim["last_lease_event"] != nil {
		t.Errorf("%v", claim)
	}
	w.object(t, "pty_attach", args{"session_id": id, "client_id": "a"}) // again
	w.refused(t, "pty_attach", args{"session_id": id, "client_id": "b"}, fault.Precondition, `attached to the client "a"`)
	for tool, a := range destructive {
		a["session_id"] = id
		w.refused(t, tool, a, fault.Precondition, "client_id is required")
		a["client_id"] = "b"
		w.refused(t, tool, a, fault.Precondition, `attached to the client "a"`)
	}
	// The owner and the scope are checked before the claim.
	w.refused(t, "pty_write", args{"session_id": id, "data": "x", "owner": "other", "client_id": "b"}, fault.Permission, "session owner mismatch")
	for tool, a := range map[string]args{"pty_read_at": {"session_id": id}, "pty_status": {"session_id": id}, "pty_wait": {"session_id": id, "timeout_ms": 0}, "pty_resume": {"name": "n"}, "pty_screen": {"session_id": id}} {
		w.object(t, tool, a)
	}
	w.text(t, "pty_list", args{})
	w.refused(t, "pty_handoff", args{"session_id": id, "client_id": "b", "target_client_id": "c"}, fault.Precondition, `attached to the client "a"`)
	w.object(t, "pty_handoff", args{"session_id": id, "client_id": "a", "target_client_id": "b", "reason": "lunch"})
	st := w.object(t, "pty_status", args{"session_id": id})
	if st["attached_client_id"] != "b" || st["last_lease_event"] != "handoff" || st["last_lease_from_client_id"] != "a" || st["last_lease_to_client_id"] != "b" || st["last_lease_reason"] != "lunch" || st["last_lease_at"] == nil {
		t.Errorf("%v", st)
	}
	w.refused(t, "pty_takeover", args{"session_id": id, "client_id": "c", "from_client_id": "a"}, fault.Precondition, `attached to the client "b"`)
	w.object(t, "pty_takeover", args{"session_id": id, "client_id": "a", "from_client_id": "b", "reason": "gone"})
	for tool, a := range destructive {
		if a["client_id"] = "a"; tool == "pty_close" {
			continue
		}
		if _, err := w.try(t, tool, a); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
	w.object(t, "pty_detach", args{"session_id": id, "client_id": "a"})
	if st := w.object(t, "pty_status", args{"session_id": id}); st["running"] != true || st["attached_client_id"] != nil || st["last_lease_event"] != "takeover" {
		t.Errorf("%v", st)
	}
	w.text(t, "pty_write", args{"session_id": id, "data": "x"}) // no client has a claim
	w.refused(t, "pty_recover", args{"name": "n"}, fault.Unsupported, "only sessions of backend=tmux")
	w.text(t, "pty_close", args{"session_id": id})
	w.refused(t, "pty_recover", args{"name": "n"}, fault.NotFound, "")
}

// TestRestart checks that a new server continues with the state of the previous one.
func TestRestart(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `stty -echo; printf 'read unread'; read -r x; printf "got $x"; sleep 1000`, args{"name": "n"})
	w.until(t, id, "read ")
	w.object(t, "pty_attach", args{"session_id": id, "client_id": "c"})
	token := w.object(t, "confirm_dangerous_command", args{"command": "rm -rf /", "justification": "j", "owner": "me", "scope": "read-write"})["confirm_token"]
	w.text(t, "pty_write", args{"session_id": id, "client_id": "c", "data": "rm -r"})
	w.Close()

	w = w.restarted(t, nil)
	st := w.object(t, "pty_resume", args{"name": "n"})
	if st["session_id"] != id || st["running"] != true || st["attached_client_id"] != "c" || st["bytes_written"] != 5.0 {
		t.Fatalf("%v", st)
	}
	w.refused(t, "pty_read", args{"session_id": id}, fault.Precondition, "client_id is required")
	if text := w.text(t, "pty_read", args{"session_id": id, "client_id": "c"}); text != "unread" {
		t.Errorf("%q", text)
	}
	// The typed line began before the restart.
	w.refused(t, "pty_write", args{"session_id": id, "client_id": "c", "data": "f /\n"}, fault.Permission, "dangerous command detected; confirmation token required")
	w.text(t, "pty_write", args{"session_id": id, "client_id": "c", "data": " x\n"})
	w.object(t, "pty_read_until", args{"session_id": id, "client_id": "c", "pattern": "got rm -r x"})
	if err := w.tokens.Redeem(token.(string), requestOf("rm -rf /")); err != nil {
		t.Error(err)
	}
}
