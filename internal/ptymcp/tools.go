package ptymcp

import (
	"bytes"
	"context"
	"encoding/json"
	"math"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Arguments that many tools have.
var (
	argSession    = mcp.String("session_id", "").Require()
	argClient     = mcp.String("client_id", "required while the session is attached")
	argFormat     = mcp.String("format", "", "text", "json").Default("text")
	argPatterns   = mcp.Strings("patterns", "").Require()
	argRegex      = mcp.Boolean("regex", "patterns are RE2 expressions, not texts").Default(false)
	argData       = mcp.String("data", `"\n" is Enter`)
	argKeys       = mcp.Strings("keys", "typed after data: enter, tab, escape, up, pageup, f1, …, ctrl-c, alt-b")
	argToken      = mcp.String("dangerous_confirm_token", "from confirm_dangerous_command")
	argConfirmed  = mcp.Boolean("dangerous_confirmed", "in the legacy mode only").Default(false)
	argWhy        = mcp.String("dangerous_justification", "in the legacy mode only")
	argMilli      = mcp.Integer("timeout_ms", "", 0, maxSeconds)
	argReason     = mcp.String("reason", "")
	argOtherOwner = mcp.String("owner", "")
)

// bind creates a tool that accepts lenient forms of its arguments. After a successful call, the
// connection can read the resources of the owner that the call named.
func bind[Req, Res any](name, description string, kind mcp.Kind, args []mcp.Arg, operation func(context.Context, Req, func(string)) (Res, error)) mcp.Tool {
	return mcp.Bind(name, description, kind, args, func(ctx context.Context, req Req, report func(string)) (Res, error) {
		result, err := operation(ctx, req, report)
		if asked, ok := any(req).(interface{ as() string }); ok && err == nil {
			mcp.Remember(ctx, asked.as())
		}
		return result, err
	}).Lenient()
}

// tools returns the tools that the configuration enables.
func (s *Server) tools() []mcp.Tool {
	all := append(s.sessionTools(), s.readTools()...)
	all = append(all, s.writeTools()...)
	if s.config.ControlTools {
		all = append(all, bind("pty_signal", "Send a signal to the foreground program.", mcp.Changes,
			s.session(argClient, mcp.String("sig", signalNames).Require()), s.signal))
	}
	if s.config.AdminTools {
		all = append(all, s.adminTools()...)
	}
	for i, t := range all {
		all[i] = t.WithTitle(titles[t.Name])
	}
	return all
}

// owner returns the argument owner.
func (s *Server) owner() mcp.Arg {
	if s.config.RequireOwner {
		return mcp.String("owner", "the same in all calls").Require()
	}
	return argOtherOwner
}

// session returns the arguments of a tool that uses one session.
func (s *Server) session(more ...mcp.Arg) []mcp.Arg {
	return append([]mcp.Arg{argSession, s.owner()}, more...)
}

// reading returns the arguments of a tool that consumes output.
func (s *Server) reading(timeout mcp.Arg, more ...mcp.Arg) []mcp.Arg {
	return s.session(append([]mcp.Arg{argClient, mcp.Integer("max_chars", "", 1, maxChars).Default(s.config.MaxChars), timeout}, more...)...)
}

func (s *Server) sessionTools() []mcp.Tool {
	limits := s.config.Limits
	name := mcp.String("name", "name for pty_resume")
	claim := s.session(mcp.String("client_id", "").Require())
	spawn := []mcp.Arg{
		mcp.String("command", "command for bash -lc").Require(), mcp.String("cwd", ""), mcp.Integer("cols", "", 1, session.MaxSide).Default(defaultCols),
		mcp.Integer("rows", "", 1, session.MaxSide).Default(defaultRows), mcp.Boolean("separate_streams", "separate stdout and stderr, without a terminal").Default(false), mcp.String("tag", ""),
		s.owner(), name, mcp.String("scope", "", "read-only", "read-write", "control", "admin").Default(session.ReadWrite),
		mcp.Integer("max_output_bytes", "stored output", 1, session.MaxOutput).Default(limits.OutputBytes),
		mcp.Integer("spawn_timeout_sec", "0: no limit", 0, maxSeconds).Default(limits.SpawnSec), mcp.Integer("rate_limit_bps", "bytes of output per second; 0: no limit", 0, math.MaxInt32).Default(limits.OutputRate),
		mcp.Integer("input_rate_bps", "bytes of input per second; 0: no limit", 0, math.MaxInt32).Default(limits.InputRate), mcp.Integer("read_timeout_ms", "default timeout of reads", 0, maxSeconds).Default(limits.ReadMS),
		mcp.StringMap("env", ""), mcp.String("backend", "").Default(s.config.Backend), mcp.String("tmux_workspace", ""),
		mcp.String("workspace_id", "with backend workspace: run the command in the machine of this workspace"), argToken, argConfirmed, argWhy,
	}
	return []mcp.Tool{
		bind("pty_spawn", "Run a command on a new terminal and return its session_id.", mcp.Runs, spawn, s.spawn).Returns(mcp.Plain(""), status{}),
		bind("pty_resume", "Find a session by its name and show its status.", mcp.Reads, []mcp.Arg{mcp.String("name", "").Require(), s.owner()}, s.resume),
		bind("pty_recover", "Restore a named session after a crash. No client has a claim on it then.", mcp.Sets,
			[]mcp.Arg{mcp.String("name", "").Require(), mcp.String("owner", "").Require()}, s.recover),
		bind("pty_attach", "Claim a session for a client.", mcp.Sets, claim, s.leasing("pty_attach", s.attach)),
		bind("pty_detach", "Release the claim of a client.", mcp.Sets, claim, s.leasing("pty_detach", s.detach)),
		bind("pty_handoff", "Pass the claim of a client to another client.", mcp.Sets, append(claim[:3:3], mcp.String("target_client_id", "").Require(), argReason), s.leasing("pty_handoff", s.handoff)),
		bind("pty_takeover", "Take the claim of another client.", mcp.Replaces, append(claim[:3:3], mcp.String("from_client_id", "").Require(), argReason), s.leasing("pty_takeover", s.takeover)),
		bind("pty_close", "End a session and delete it.", mcp.Replaces, s.session(argClient), s.close),
		bind("pty_status", "Show the state and settings of a session.", mcp.Reads, s.session(), s.status),
		bind("pty_wait", "Wait for the end of a session.", mcp.Reads, s.session(argMilli.Default(defaultPatience.Milliseconds())), s.wait),
		bind("pty_list", "List your sessions.", mcp.Reads, []mcp.Arg{mcp.String("tag", ""), s.owner()}, s.list).Returns(listed{}),
	}
}

func (s *Server) readTools() []mcp.Tool {
	reading := []any{mcp.Plain(""), chunk{}} // by format
	short, long := argMilli.Default(s.config.Limits.ReadMS), argMilli.Default(defaultPatience.Milliseconds())
	quiet := mcp.Integer("quiescence_ms", "required time of silence", 0, maxSeconds).Default(s.config.Quiescence.Milliseconds())
	return []mcp.Tool{
		bind("pty_read", "Read and consume new output.", mcp.Adds, s.reading(short, argFormat), s.read(readOutput, session.Output)).Returns(reading...),
		bind("pty_read_stdout", "Read and consume new standard output of a session with separate_streams.", mcp.Adds, s.reading(short, argFormat), s.read(readStdout, session.Stdout)).Returns(reading...),
		bind("pty_read_stderr", "Read and consume new standard error of a session with separate_streams.", mcp.Adds, s.reading(short, argFormat), s.read(readStderr, session.Stderr)).Returns(reading...),
		bind("pty_read_at", "Read output from an offset without consuming it.", mcp.Reads,
			s.session(mcp.Integer("offset", "", 0, 0).Default(0), mcp.Integer("max_chars", "", 1, maxChars).Default(s.config.MaxChars), mcp.String("stream", "", "pty", "stdout", "stderr").Default("pty")), s.readAt),
		bind("pty_read_until", "Read and consume output up to the end of the first match.", mcp.Adds, s.reading(long, mcp.String("pattern", "").Require(), argRegex), s.until),
		bind("pty_read_until_any", "Read and consume output up to the end of the first match of any pattern.", mcp.Adds, s.reading(long, argPatterns, argRegex), s.untilAny),
		bind("pty_read_quiescent", "Wait for output and then for silence; read and consume it.", mcp.Adds, s.reading(long, quiet, argFormat), s.readQuiescent).Returns(reading...),
		bind("pty_screen", "Show the text on the screen, and guess the state of the session.", mcp.Reads, s.session(), s.screen),
	}
}

func (s *Server) writeTools() []mcp.Tool {
	return []mcp.Tool{
		bind("pty_prompt", "Type, then read and consume output up to the first match.", mcp.Runs,
			s.reading(argMilli.Default(defaultPatience.Milliseconds()), argData.Require(), argKeys, argPatterns, argRegex, argToken, argConfirmed, argWhy), s.prompt),
		bind("confirm_dangerous_command", "Get a token for a dangerous command, for pty_spawn, or for pty_write with session_id.", mcp.Adds, []mcp.Arg{
			mcp.String("command", "").Require(), mcp.String("justification", "reason; required for a dangerous command"), argOtherOwner, mcp.String("scope", ""), mcp.String("session_id", "session for the typed command"),
			mcp.String("cwd", "as in pty_spawn"), mcp.StringMap("env", "as in pty_spawn"),
		}, s.confirm),
		bind("pty_write", "Type into a session.", mcp.Runs, s.session(argClient, argData, argKeys, argToken, argConfirmed, argWhy), s.write),
		bind("pty_send_secret", "Type a secret from a file, variable or person when the session asks for one. You do not see it.", mcp.Runs,
			s.session(argClient, mcp.String("file", "file with the secret in one line"), mcp.String("variable", "environment variable of the server"), mcp.Boolean("person", "ask the user").Default(false), mcp.String("why", "reason for the user"),
				mcp.Boolean("enter", "press Enter after the secret").Default(true), mcp.Boolean("shown", "type the secret even if the terminal shows input").Default(false), argMilli.Default(defaultPatience.Milliseconds())), s.sendSecret),
		bind("pty_resize", "Change the size of a terminal.", mcp.Sets, s.session(argClient, mcp.Integer("cols", "", 1, session.MaxSide).Require(), mcp.Integer("rows", "", 1, session.MaxSide).Require()), s.resize),
	}
}

func (s *Server) adminTools() []mcp.Tool {
	return []mcp.Tool{
		bind("pty_close_all", "End all sessions, of all owners.", mcp.Replaces, nil, s.closeAll),
		bind("set_default_cwd", "Set the default folder of new sessions.", mcp.Sets, []mcp.Arg{mcp.String("cwd", "")}, s.setCwd),
		bind("get_default_cwd", "Show the default folder of new sessions.", mcp.Reads, nil, s.getCwd),
		bind("set_limits", "Set the limits of new sessions.", mcp.Sets, limitArgs, s.setLimits),
		bind("get_limits", "Show the limits of new sessions.", mcp.Reads, nil, s.getLimits),
		bind("pty_metrics", "Show totals over all sessions.", mcp.Reads, nil, s.metrics),
		bind("pty_health", "Show the health of the server.", mcp.Reads, nil, s.health),
	}
}

// asJSON encodes a result that is JSON but not an object.
func asJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if b.Len() > mcp.MaxResult {
		return "", fault.Newf(fault.Exhausted, "the result has %d bytes, more than %d", b.Len(), mcp.MaxResult).WithHint("filter by tag")
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
