package ptymcp

// titles are the titles of tools, which clients show to people.
var titles = map[string]string{
	"pty_spawn": "Start a terminal session", "pty_resume": "Find a session", "pty_recover": "Recover a session", "pty_attach": "Claim a session",
	"pty_detach": "Release a session", "pty_handoff": "Hand a session over", "pty_takeover": "Take a session over", "pty_close": "Close a session",
	"pty_status": "Show a session", "pty_wait": "Wait for a session's end", "pty_list": "List sessions",

	"pty_read": "Read output", "pty_read_stdout": "Read standard output", "pty_read_stderr": "Read standard error", "pty_read_at": "Read output at an offset",
	"pty_read_until": "Read until a match", "pty_read_until_any": "Read until any match", "pty_read_quiescent": "Read until silence", "pty_screen": "Show the screen",

	"pty_prompt": "Type and wait for a match", "confirm_dangerous_command": "Confirm a dangerous command", "pty_write": "Type", "pty_send_secret": "Type a secret",
	"pty_resize": "Resize a terminal", "pty_signal": "Send a signal",

	"pty_close_all": "Close all sessions", "set_default_cwd": "Set the default folder", "get_default_cwd": "Show the default folder", "set_limits": "Set limits",
	"get_limits": "Show limits", "pty_metrics": "Show metrics", "pty_health": "Show health",
}
