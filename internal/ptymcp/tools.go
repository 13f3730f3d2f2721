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

// The arguments that many tools have.
var (
	argSession    = mcp.Text("session_id", "").Must()
	argClient     = mcp.Text("client_id", "needed while the session is attached")
	argFormat     = mcp.Text("format", "", "text", "json").By("text")
	argPatterns   = mcp.Texts("patterns", "").Must()
	argRegex      = mcp.Flag("regex", "patterns are RE2, not texts").By(false)
	argData       = mcp.Text("data", `"\n" is Enter`)
	argKeys       = mcp.Texts("keys", "typed after data: enter, tab, escape, up, pageup, f1, …, ctrl-c, alt-b")
	argToken      = mcp.Text("dangerous_confirm_token", "from confirm_dangerous_command")
	argConfirmed  = mcp.Flag("dangerous_confirmed", "in the legacy mode only").By(false)
	argWhy        = mcp.Text("dangerous_justification", "in the legacy mode only")
	argMilli      = mcp.Number("timeout_ms", "", 0, maxSeconds)
	argReason     = mcp.Text("reason", "")
	argOtherOwner = mcp.Text("owner", "")
)

// bind makes a tool that takes its arguments in any form. The owner that it was called with, and that was right, may read resources by the same connection.
func bind[Req, Res any](name, description string, kind mcp.Kind, args []mcp.Arg, operation func(context.Context, Req, func(string)) (Res, error)) mcp.Tool {
	return mcp.Bind(name, description, kind, args, func(ctx context.Context, req Req, report func(string)) (Res, error) {
		result, err := operation(ctx, req, report)
		if asked, ok := any(req).(interface{ as() string }); ok && err == nil {
			mcp.Remember(ctx, asked.as())
		}
		return result, err
	}).Leniently()
}

// tools are those that the configuration has.
func (s *Server) tools() []mcp.Tool {
	all := append(s.sessionTools(), s.readTools()...)
	all = append(all, s.writeTools()...)
	if s.config.ControlTools {
		all = append(all, bind("pty_signal", "Send a signal to what is in the foreground.", mcp.Changes,
			s.session(argClient, mcp.Text("sig", signalNames).Must()), s.signal))
	}
	if s.config.AdminTools {
		all = append(all, s.adminTools()...)
	}
	for i, t := range all {
		all[i] = t.Titled(titles[t.Name])
	}
	return all
}

// owner is that argument.
func (s *Server) owner() mcp.Arg {
	if s.config.RequireOwner {
		return mcp.Text("owner", "the same in all calls").Must()
	}
	return argOtherOwner
}

// session are the arguments of a tool that is about a session.
func (s *Server) session(more ...mcp.Arg) []mcp.Arg {
	return append([]mcp.Arg{argSession, s.owner()}, more...)
}

// reading are those of one that takes output.
func (s *Server) reading(timeout mcp.Arg, more ...mcp.Arg) []mcp.Arg {
	return s.session(append([]mcp.Arg{argClient, mcp.Number("max_chars", "", 1, maxChars).By(s.config.MaxChars), timeout}, more...)...)
}

func (s *Server) sessionTools() []mcp.Tool {
	limits := s.config.Limits
	name := mcp.Text("name", "to find it by again")
	lease := s.session(mcp.Text("client_id", "").Must())
	spawn := []mcp.Arg{
		mcp.Text("command", "for bash -lc").Must(), mcp.Text("cwd", ""), mcp.Number("cols", "", 1, session.MaxSide).By(defaultCols),
		mcp.Number("rows", "", 1, session.MaxSide).By(defaultRows), mcp.Flag("separate_streams", "stdout and stderr apart, on no terminal").By(false), mcp.Text("tag", ""),
		s.owner(), name, mcp.Text("scope", "", "read-only", "read-write", "control", "admin").By(session.ReadWrite),
		mcp.Number("max_output_bytes", "kept of what it prints", 1, session.MaxOutput).By(limits.OutputBytes),
		mcp.Number("spawn_timeout_sec", "0: none", 0, maxSeconds).By(limits.SpawnSec), mcp.Number("rate_limit_bps", "of output; 0: none", 0, math.MaxInt32).By(limits.OutputRate),
		mcp.Number("input_rate_bps", "0: none", 0, math.MaxInt32).By(limits.InputRate), mcp.Number("read_timeout_ms", "of reads that say none", 0, maxSeconds).By(limits.ReadMS),
		mcp.Pairs("env", ""), mcp.Text("backend", "").By(s.config.Backend), mcp.Text("tmux_workspace", ""),
		mcp.Text("workspace_id", "for backend workspace: in a machine, the safe way"), argToken, argConfirmed, argWhy,
	}
	return []mcp.Tool{
		bind("pty_spawn", "Run a command on a terminal of its own; gives its session_id.", mcp.Runs, spawn, s.spawn).Giving(mcp.Plain(""), status{}),
		bind("pty_resume", "Find a session by its name, and tell its status.", mcp.Reads, []mcp.Arg{mcp.Text("name", "").Must(), s.owner()}, s.resume),
		bind("pty_recover", "Find a named session again after a crash, attached to nobody.", mcp.Sets,
			[]mcp.Arg{mcp.Text("name", "").Must(), mcp.Text("owner", "").Must()}, s.recover),
		bind("pty_attach", "Claim a session for a client.", mcp.Sets, lease, s.leasing("pty_attach", s.attach)),
		bind("pty_detach", "Release the claim of a client.", mcp.Sets, lease, s.leasing("pty_detach", s.detach)),
		bind("pty_handoff", "Give the claim of a client to another.", mcp.Sets, append(lease[:3:3], mcp.Text("target_client_id", "").Must(), argReason), s.leasing("pty_handoff", s.handoff)),
		bind("pty_takeover", "Take the claim of another client.", mcp.Replaces, append(lease[:3:3], mcp.Text("from_client_id", "").Must(), argReason), s.leasing("pty_takeover", s.takeover)),
		bind("pty_close", "End a session, and forget it.", mcp.Replaces, s.session(argClient), s.close),
		bind("pty_status", "Tell all of a session.", mcp.Reads, s.session(), s.status),
		bind("pty_wait", "Wait for the end of a session.", mcp.Reads, s.session(argMilli.By(defaultPatience.Milliseconds())), s.wait),
		bind("pty_list", "List your sessions.", mcp.Reads, []mcp.Arg{mcp.Text("tag", ""), s.owner()}, s.list).Giving(listed{}),
	}
}

func (s *Server) readTools() []mcp.Tool {
	reading := []any{mcp.Plain(""), chunk{}} // by format
	short, long := argMilli.By(s.config.Limits.ReadMS), argMilli.By(defaultPatience.Milliseconds())
	quiet := mcp.Number("quiescence_ms", "of silence", 0, maxSeconds).By(s.config.Quiescence.Milliseconds())
	return []mcp.Tool{
		bind("pty_read", "Take new output.", mcp.Adds, s.reading(short, argFormat), s.read(readOutput, session.Output)).Giving(reading...),
		bind("pty_read_stdout", "Take new standard output, with separate_streams.", mcp.Adds, s.reading(short, argFormat), s.read(readStdout, session.Stdout)).Giving(reading...),
		bind("pty_read_stderr", "Take new standard error, with separate_streams.", mcp.Adds, s.reading(short, argFormat), s.read(readStderr, session.Stderr)).Giving(reading...),
		bind("pty_read_at", "Read output from an offset, and take nothing.", mcp.Reads,
			s.session(mcp.Number("offset", "", 0, 0).By(0), mcp.Number("max_chars", "", 1, maxChars).By(s.config.MaxChars), mcp.Text("stream", "", "pty", "stdout", "stderr").By("pty")), s.readAt),
		bind("pty_read_until", "Take output up to the end of the first match.", mcp.Adds, s.reading(long, mcp.Text("pattern", "").Must(), argRegex), s.until),
		bind("pty_read_until_any", "Take output up to the end of the first match of any pattern.", mcp.Adds, s.reading(long, argPatterns, argRegex), s.untilAny),
		bind("pty_read_quiescent", "Wait for output and then for silence, and take it.", mcp.Adds, s.reading(long, quiet, argFormat), s.readQuiescent).Giving(reading...),
		bind("pty_screen", "Show what a person would see, and guess what the session waits for.", mcp.Reads, s.session(), s.screen),
	}
}

func (s *Server) writeTools() []mcp.Tool {
	return []mcp.Tool{
		bind("pty_prompt", "Type, and take output up to the first match in what comes after it.", mcp.Runs,
			s.reading(argMilli.By(defaultPatience.Milliseconds()), argData.Must(), argKeys, argPatterns, argRegex, argToken, argConfirmed, argWhy), s.prompt),
		bind("confirm_dangerous_command", "Get a token for a dangerous command, for pty_spawn, or for pty_write with session_id.", mcp.Adds, []mcp.Arg{
			mcp.Text("command", "").Must(), mcp.Text("justification", "why; needed if it is dangerous"), argOtherOwner, mcp.Text("scope", ""), mcp.Text("session_id", "that it is to be typed into"),
			mcp.Text("cwd", "as in pty_spawn"), mcp.Pairs("env", "as in pty_spawn"),
		}, s.confirm),
		bind("pty_write", "Type into a session.", mcp.Runs, s.session(argClient, argData, argKeys, argToken, argConfirmed, argWhy), s.write),
		bind("pty_send_secret", "Type a secret that you need not see, when the session asks for a password; it is hidden in what is printed. Name a file or a variable, or have the person type it.", mcp.Runs,
			s.session(argClient, mcp.Text("file", "that holds it, as one line"), mcp.Text("variable", "of the server's environment"), mcp.Flag("person", "they are asked").By(false), mcp.Text("why", "what they are told"),
				mcp.Flag("enter", "after it").By(true), mcp.Flag("shown", "also where the terminal shows what is typed").By(false), argMilli.By(defaultPatience.Milliseconds())), s.sendSecret),
		bind("pty_resize", "Give a terminal another size.", mcp.Sets, s.session(argClient, mcp.Number("cols", "", 1, session.MaxSide).Must(), mcp.Number("rows", "", 1, session.MaxSide).Must()), s.resize),
	}
}

func (s *Server) adminTools() []mcp.Tool {
	return []mcp.Tool{
		bind("pty_close_all", "End all sessions, of all owners.", mcp.Replaces, nil, s.closeAll),
		bind("set_default_cwd", "Set where new sessions run that name no folder.", mcp.Sets, []mcp.Arg{mcp.Text("cwd", "")}, s.setCwd),
		bind("get_default_cwd", "Tell where that is.", mcp.Reads, nil, s.getCwd),
		bind("set_limits", "Set the limits of new sessions.", mcp.Sets, limitArgs, s.setLimits),
		bind("get_limits", "Tell the limits of new sessions.", mcp.Reads, nil, s.getLimits),
		bind("pty_metrics", "Tell the sums over all sessions.", mcp.Reads, nil, s.metrics),
		bind("pty_health", "Tell whether the server is well.", mcp.Reads, nil, s.health),
	}
}

// asJSON is a result that is JSON, and no object.
func asJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if b.Len() > mcp.MaxResult {
		return "", fault.Newf(fault.Exhausted, "the result has %d bytes, and may have %d", b.Len(), mcp.MaxResult).WithHint("ask for less, by a tag")
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
