package ptymcp

import "testing"

// example is a call in docs/pty.md. TestReference makes each call on a new server that has all
// tools.
type example struct {
	tool    string
	says    string                          // text above the example.
	command string                          // command of the session $session; empty: no session.
	spawned args                            // more arguments for starting that session.
	before  func(t *testing.T, s *showcase) // runs before the call, and is not shown.
	args    string                          // arguments as JSON, as shown.
	only    []string                        // fields of the result to show; empty: all.
}

// Commands of sessions in examples.
const (
	shell   = `PS1='$ ' exec bash --norc --noediting`
	aTest   = `sh test.sh`
	agrees  = `read -rp 'Do you want to continue? [Y/n] ' yes; echo "Setting up curl ($yes)"`
	logsIn  = `stty -echo; printf '[sudo] password for agent: '; read -r p`
	twoEnds = `echo 'app.js 12 kB'; echo 'warning: unused x' >&2`
	server  = `trap 'echo stopped; exit 0' INT; echo listening on 8080; while :; do sleep 0.1; done`
)

// ofStatus lists the fields of a status that examples show. pty_status returns more.
var ofStatus = []string{"session_id", "name", "running", "exit_code", "backend", "buffer_bytes", "attached_client_id", "last_lease_event", "recovered", "recovered_at"}

// examples contains at least one call of each tool.
var examples = []example{
	{
		tool: "pty_spawn", says: "An interactive shell. With `--noediting`, or `TERM` set to `dumb`, bash prints only text.",
		args: `{"command": "PS1='$ ' exec bash --norc --noediting", "cwd": "$project", "name": "shell", "owner": "agent"}`,
	},
	{
		tool: "pty_spawn", says: "In tmux, to survive the death of the session process.",
		args: `{"command": "sh test.sh", "cwd": "$project", "name": "tests", "owner": "agent", "backend": "tmux"}`,
	},
	{
		tool: "pty_spawn", says: "With the token of [confirm_dangerous_command](#confirm_dangerous_command).", before: confirmed,
		args: `{"command": "rm -rf $project/build", "cwd": "$project", "owner": "agent", "dangerous_confirm_token": "$token"}`,
	},
	{
		tool: "pty_spawn", says: "Without it:",
		args: `{"command": "rm -rf $project/build", "cwd": "$project", "owner": "agent"}`,
	},
	{
		tool: "pty_resume", command: shell, before: until("$ "), only: ofStatus,
		args: `{"name": "shell", "owner": "agent"}`,
	},
	{
		tool: "pty_recover", says: "The session process of a tmux session was killed, with unread output.", command: `echo 17 passed; read -r`, spawned: args{"backend": "tmux"},
		before: func(t *testing.T, s *showcase) {
			s.filled(t, "17 passed\r\n")
			s.killSessionProcess(t)
		},
		only: ofStatus, args: `{"name": "shell", "owner": "agent"}`,
	},
	{
		tool: "pty_attach", command: shell,
		args: `{"session_id": "$session", "owner": "agent", "client_id": "planner"}`,
	},
	{
		tool: "pty_detach", command: shell, before: attached,
		args: `{"session_id": "$session", "owner": "agent", "client_id": "planner"}`,
	},
	{
		tool: "pty_handoff", command: shell, before: attached,
		args: `{"session_id": "$session", "owner": "agent", "client_id": "planner", "target_client_id": "reviewer", "reason": "the tests pass"}`,
	},
	{
		tool: "pty_takeover", command: shell, before: attached,
		args: `{"session_id": "$session", "owner": "agent", "client_id": "reviewer", "from_client_id": "planner", "reason": "it is gone"}`,
	},
	{
		tool: "pty_close", command: shell,
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_status", says: "After the end, with unread output.", command: aTest, before: over,
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_wait", command: aTest,
		args: `{"session_id": "$session", "owner": "agent", "timeout_ms": 60000}`,
	},
	{
		tool: "pty_list", command: aTest, before: over, only: []string{"session_id", "name", "running", "exit_code", "command", "tag", "owner", "buffer_bytes", "attached_client_id"},
		spawned: args{"tag": "ci"}, args: `{"tag": "ci", "owner": "agent"}`,
	},
	{
		tool: "pty_read", command: aTest, before: over,
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_read", command: aTest, before: over,
		args: `{"session_id": "$session", "owner": "agent", "max_chars": 13, "format": "json"}`,
	},
	{
		tool: "pty_read_stdout", command: twoEnds, spawned: args{"separate_streams": true}, before: over,
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_read_stderr", command: twoEnds, spawned: args{"separate_streams": true}, before: over,
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_read_at", says: "Start at the `chunk_id` of a result, or at its `next_offset`.", command: aTest, before: over,
		args: `{"session_id": "$session", "owner": "agent", "offset": 13}`,
	},
	{
		tool: "pty_read_until", says: "The output of `ls`, up to the next prompt.", command: shell, before: typed("$ ", "ls\n"),
		args: `{"session_id": "$session", "owner": "agent", "pattern": "$ "}`,
	},
	{
		tool: "pty_read_until_any", command: aTest,
		args: `{"session_id": "$session", "owner": "agent", "patterns": ["[0-9]+ failed", "all passed"], "regex": true, "timeout_ms": 60000}`,
	},
	{
		tool: "pty_read_quiescent", says: "For unknown output.", command: server,
		args: `{"session_id": "$session", "owner": "agent", "quiescence_ms": 200}`,
	},
	{
		tool: "pty_screen", says: "The session waits for a password.", command: logsIn, before: until("agent: "),
		args: `{"session_id": "$session", "owner": "agent"}`,
	},
	{
		tool: "pty_prompt", command: agrees, before: until("[Y/n] "),
		args: `{"session_id": "$session", "owner": "agent", "data": "y\n", "patterns": ["Setting up curl", "Abort."]}`,
	},
	{
		tool: "confirm_dangerous_command", args: `{"command": "rm -rf $project/build", "justification": "the next build makes it again", "owner": "agent", "scope": "read-write"}`,
	},
	{
		tool: "pty_write", says: "A line, with Enter.", command: shell, before: until("$ "),
		args: `{"session_id": "$session", "owner": "agent", "data": "git status\n"}`,
	},
	{
		tool: "pty_write", says: "Keys, by their names.", command: server, before: until("8080"),
		args: `{"session_id": "$session", "owner": "agent", "keys": ["ctrl-c"]}`,
	},
	{
		tool: "pty_send_secret", says: "The file has the password in one line.", command: logsIn, before: until("agent: "),
		args: `{"session_id": "$session", "owner": "agent", "file": "$project/.password"}`,
	},
	{
		tool: "pty_resize", command: shell,
		args: `{"session_id": "$session", "owner": "agent", "cols": 200, "rows": 50}`,
	},
	{
		tool: "pty_signal", says: "The session needs the scope `control` or `admin`.", command: server, spawned: args{"scope": "control"}, before: until("8080"),
		args: `{"session_id": "$session", "owner": "agent", "sig": "INT"}`,
	},
	{tool: "pty_close_all", command: shell, args: `{}`},
	{tool: "set_default_cwd", args: `{"cwd": "$project"}`},
	{tool: "get_default_cwd", before: func(t *testing.T, s *showcase) { s.called(t, "set_default_cwd", args{"cwd": s.project}) }, args: `{}`},
	{tool: "set_limits", says: "Missing fields keep their values.", args: `{"idle_timeout_sec": 3600, "read_timeout_ms": 1000}`},
	{tool: "get_limits", args: `{}`},
	{tool: "pty_metrics", command: aTest, before: over, args: `{}`},
	{tool: "pty_health", args: `{}`},
}

// These functions prepare the call of an example.

// until waits for a text. It consumes the output up to the end of the text.
func until(text string) func(*testing.T, *showcase) {
	return func(t *testing.T, s *showcase) {
		s.called(t, "pty_read_until", args{"session_id": s.session, "owner": "agent", "pattern": text, "timeout_ms": 60000})
	}
}

// typed waits for a text, then types data.
func typed(text, data string) func(*testing.T, *showcase) {
	return func(t *testing.T, s *showcase) {
		until(text)(t, s)
		s.called(t, "pty_write", args{"session_id": s.session, "owner": "agent", "data": data})
	}
}

// over waits until the session has ended.
func over(t *testing.T, s *showcase) {
	s.called(t, "pty_wait", args{"session_id": s.session, "owner": "agent", "timeout_ms": 60000})
}

func attached(t *testing.T, s *showcase) {
	s.called(t, "pty_attach", args{"session_id": s.session, "owner": "agent", "client_id": "planner"})
}

func confirmed(t *testing.T, s *showcase) {
	r := s.called(t, "confirm_dangerous_command", args{
		"command": "rm -rf " + s.project + "/build", "justification": "the next build makes it again", "owner": "agent", "scope": "read-write",
	})
	s.token = r.StructuredContent.(map[string]any)["confirm_token"].(string)
}
