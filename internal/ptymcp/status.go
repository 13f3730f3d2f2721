package ptymcp

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// summary describes a session in pty_list. Times are seconds since 1970.
type summary struct {
	SessionID   string          `json:"session_id"`
	Name        *string         `json:"name"`
	PID         int             `json:"pid"`
	PGID        int             `json:"pgid"`
	Running     bool            `json:"running"`
	ExitCode    *int            `json:"exit_code"`
	Command     string          `json:"command"`
	Cwd         string          `json:"cwd"`
	Cols        int             `json:"cols"`
	Rows        int             `json:"rows"`
	Tag         *string         `json:"tag"`
	Owner       *string         `json:"owner"`
	Scope       session.Scope   `json:"scope"`
	Backend     session.Backend `json:"backend"`
	TmuxSpace   *string         `json:"tmux_workspace"`
	WorkspaceID *string         `json:"workspace_id"`
	CreatedAt   float64         `json:"created_at"`
	LastActive  float64         `json:"last_active"`
	Buffered    int64           `json:"buffer_bytes"`  // unread bytes of output
	Read        int64           `json:"bytes_read"`    // total bytes of output
	Written     int64           `json:"bytes_written"` // total bytes of input
	Recovered   bool            `json:"recovered"`
	RecoveredAt *float64        `json:"recovered_at"`
	leaseFields
}

// status contains the additional fields of pty_status.
type status struct {
	summary
	Separate     bool                `json:"separate_streams"`
	Reason       *session.ExitReason `json:"exit_reason"`
	OutBuffered  int64               `json:"stdout_buffer_bytes"`
	ErrBuffered  int64               `json:"stderr_buffer_bytes"`
	Start        int64               `json:"buf_start_offset"`
	Total        int64               `json:"buf_total_offset"`
	OutStart     int64               `json:"stdout_start_offset"`
	OutTotal     int64               `json:"stdout_total_offset"`
	ErrStart     int64               `json:"stderr_start_offset"`
	ErrTotal     int64               `json:"stderr_total_offset"`
	OutputBytes  int64               `json:"max_output_bytes"`
	RuntimeSec   float64             `json:"max_runtime_sec"`
	OutputRate   int64               `json:"rate_limit_bps"`
	Dropped      int64               `json:"rate_dropped"` // always 0: output that comes too fast is delayed, not dropped
	InputRate    int64               `json:"input_rate_bps"`
	InputRefused int64               `json:"input_dropped"` // Bytes of input that were rejected because they came too fast.
	Truncated    bool                `json:"truncated"`     // The beginning of the output is no longer stored.
	LogError     *string             `json:"log_error"`     // Why the log in the log folder is incomplete.
}

// counts contains byte counts of one log.
type counts struct{ buffered, start, total int64 }

func countsOf(info session.Info, stream session.Stream) (c counts, err error) {
	if stream != session.Output && !info.Separate {
		return c, nil
	}
	l, err := info.Folder.Log(stream)
	if err != nil {
		return c, err
	}
	defer l.Close()
	c.start, c.total = l.Start(), l.Len()
	c.buffered = max(0, c.total-max(l.Cursor(), c.start))
	return c, nil
}

// orNull returns a pointer to a text, or nil if the text is empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// epochOrNull returns a time in seconds since 1970, or nil for the zero time.
func epochOrNull(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	return new(epoch(t))
}

// describe returns all fields of a session.
func (s *Server) describe(ctx context.Context, info session.Info) (*status, error) {
	leases, err := s.sessions.Claims()
	if err != nil {
		return nil, err
	}
	var all []session.Info
	if info.TmuxWorkspace != "" {
		if all, err = s.sessions.List(); err != nil {
			return nil, err
		}
	}
	return describe(ctx, info, shared(info, all, leases))
}

// describe returns all fields of a session whose claim is known.
func describe(ctx context.Context, info session.Info, claim leaseFields) (*status, error) {
	typed := session.Count{Written: info.Written, Refused: info.Refused}
	if info.Running() {
		switch a, err := info.Ask(ctx, session.Request{Op: session.OpCount}); {
		case err == nil:
			typed = *a.Count
		case !a.Ended:
			return nil, err
		}
	}
	var all [3]counts
	for i, stream := range []session.Stream{session.Output, session.Stdout, session.Stderr} {
		var err error
		if all[i], err = countsOf(info, stream); err != nil {
			return nil, fault.Wrap(err, "show session", info.ID)
		}
	}
	st := &status{
		summary: summary{
			SessionID: info.ID, Name: orNull(info.Name), PID: info.PID, PGID: info.PGID, Running: info.Running(), ExitCode: info.ExitCode, Command: info.Command, Cwd: info.Cwd,
			Cols: info.Size.Cols, Rows: info.Size.Rows, Tag: orNull(info.Tag), Owner: orNull(info.Owner), Scope: info.Scope, Backend: info.Backend,
			TmuxSpace: orNull(info.TmuxWorkspace), WorkspaceID: orNull(info.WorkspaceID), Recovered: info.Recovered, RecoveredAt: epochOrNull(info.RecoveredAt), CreatedAt: epoch(info.CreatedAt), LastActive: epoch(info.LastActive()),
			Buffered: all[0].buffered, Read: all[0].total, Written: typed.Written, leaseFields: claim,
		},
		Separate: info.Separate, OutBuffered: all[1].buffered, ErrBuffered: all[2].buffered, Start: all[0].start, Total: all[0].total,
		OutStart: all[1].start, OutTotal: all[1].total, ErrStart: all[2].start, ErrTotal: all[2].total,
		OutputBytes: info.OutputBytes, RuntimeSec: info.RuntimeLimit.Seconds(), OutputRate: info.OutputRate, InputRate: info.InputRate,
		InputRefused: typed.Refused, Truncated: all[0].start > 0, LogError: orNull(info.LogError),
	}
	if !info.Running() {
		st.Reason = &info.Reason
	}
	return st, nil
}

// status is pty_status.
func (s *Server) status(ctx context.Context, req target, _ func(string)) (*status, error) {
	info, err := s.use(req, observes("pty_status"))
	if err != nil {
		return nil, err
	}
	touch(info)
	return s.describe(ctx, info)
}

// nameRequest is a request that names a session by name and owner.
type nameRequest struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
}

func (r nameRequest) as() string { return r.Owner }

// resume is pty_resume. It also finds sessions that other servers started.
func (s *Server) resume(ctx context.Context, req nameRequest, _ func(string)) (*status, error) {
	info, err := s.byName(req, "pty_resume")
	if err != nil {
		return nil, err
	}
	touch(info)
	return s.describe(ctx, info)
}

// recover is pty_recover.
func (s *Server) recover(ctx context.Context, req nameRequest, _ func(string)) (*status, error) {
	switch {
	case req.Name == "":
		return nil, fault.Newf(fault.Invalid, "name is required")
	case req.Owner == "":
		return nil, fault.Newf(fault.Permission, "owner is required for pty_recover")
	}
	info, err := s.sessions.Recover(ctx, req.Name, req.Owner)
	if err != nil {
		return nil, err
	}
	touch(info)
	return s.describe(ctx, info)
}

func (s *Server) byName(req nameRequest, tool string) (session.Info, error) {
	if err := s.requireOwner(req.Owner, tool); err != nil {
		return session.Info{}, err
	}
	if req.Name == "" {
		return session.Info{}, fault.Newf(fault.Invalid, "name is required")
	}
	return s.sessions.Find(req.Name, req.Owner)
}

// listRequest is the request of pty_list.
type listRequest struct {
	Tag   string `json:"tag"`
	Owner string `json:"owner"`
}

func (r listRequest) as() string { return r.Owner }

// listed is the structured result of pty_list. Its text form is only the list itself, as in
// pty-mcp.
type listed struct {
	Result []summary `json:"result"`
}

// list is pty_list. The most recently used session comes last.
func (s *Server) list(ctx context.Context, req listRequest, _ func(string)) (any, error) {
	if err := s.requireOwner(req.Owner, "pty_list"); err != nil {
		return nil, err
	}
	found, err := s.summaries(ctx, func(info session.Info) bool {
		return (req.Tag == "" || info.Tag == req.Tag) && (req.Owner == "" || info.Owner == req.Owner)
	})
	if err != nil {
		return nil, err
	}
	text, err := asJSON(found)
	return mcp.TextResult{Text: text, Structure: listed{found}}, err
}

// summaries describes the sessions that a filter function selects. The most recently used session
// comes last.
func (s *Server) summaries(ctx context.Context, of func(session.Info) bool) ([]summary, error) {
	all, err := s.sessions.List()
	if err != nil {
		return nil, err
	}
	leases, err := s.sessions.Claims()
	if err != nil {
		return nil, err
	}
	summaries := []summary{}
	for i := len(all) - 1; i >= 0; i-- {
		info := all[i]
		if !of(info) {
			continue
		}
		st, err := describe(ctx, info, shared(info, all, leases))
		if fault.KindOf(err) == fault.NotFound { // another client has closed the session
			continue
		}
		if err != nil {
			return nil, err
		}
		summaries = append(summaries, st.summary)
	}
	return summaries, nil
}

// waitRequest is the request of pty_wait.
type waitRequest struct {
	target
	TimeoutMS *int64 `json:"timeout_ms"`
}

// waitResult is the result of pty_wait.
type waitResult struct {
	Running  bool                `json:"running"`
	ExitCode *int                `json:"exit_code"`
	Reason   *session.ExitReason `json:"exit_reason"`
}

// wait is pty_wait.
func (s *Server) wait(ctx context.Context, req waitRequest, _ func(string)) (*waitResult, error) {
	info, err := s.use(req.target, observes("pty_wait"))
	if err != nil {
		return nil, err
	}
	if timeout := s.patience(req.TimeoutMS, defaultPatience); info.Running() && timeout > 0 {
		if err := info.Wait(ctx, session.Request{UntilEnd: true, Timeout: timeout}); err != nil {
			return nil, err
		}
		if info, err = s.sessions.Get(info.ID); err != nil {
			return nil, err
		}
	}
	result := &waitResult{Running: info.Running(), ExitCode: info.ExitCode}
	if !info.Running() {
		result.Reason = &info.Reason
	}
	return result, nil
}

// age returns the time since a point in time, in whole seconds.
func age(since time.Time) int64 { return int64(time.Since(since).Seconds()) }
