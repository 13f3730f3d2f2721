// Package session runs programs on terminals in the background.
//
// Each session has a folder and a session process (see package process). The session process owns
// the terminal and all programs on it. Users of sessions can start, stop and crash at any time: the
// folder stores the spec, the output, the read cursor and the client claim. Reading output needs
// only the log, so it works even after the session process has ended.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Backend is the kind of environment that runs the program of a session.
type Backend string

// The backends.
const (
	Subprocess Backend = "subprocess" // a process of the host
	Tmux       Backend = "tmux"       // a tmux pane
	Workspace  Backend = "workspace"  // a shell in the machine of a workspace
)

// Scope limits the operations that a session allows. Each scope includes the scopes before it.
type Scope string

// The scopes.
const (
	ReadOnly  Scope = "read-only"
	ReadWrite Scope = "read-write" // plus input, resize and close
	Control   Scope = "control"    // plus signals
	Admin     Scope = "admin"      // plus operations on all sessions
)

// Scopes lists all scopes. The narrowest scope is first.
var Scopes = []Scope{ReadOnly, ReadWrite, Control, Admin}

// Allows reports whether s includes the scope needed.
func (s Scope) Allows(needed Scope) bool {
	return slices.Index(Scopes, s) >= slices.Index(Scopes, needed)
}

// Maximum values in a Spec.
const (
	MaxSide    = 1000     // columns or rows.
	MaxCommand = 64 << 10 // bytes of the command.
	MaxOutput  = 64 << 20 // bytes of each log.
	MaxLabel   = 200      // bytes of a name, an owner or a tag.
	MaxEnv     = 64 << 10 // bytes of the environment.
)

// Spec describes a new session. It never changes afterwards.
type Spec struct {
	ID            string            `json:"id"`
	Name          string            `json:"name,omitempty"`
	Owner         string            `json:"owner,omitempty"`
	Tag           string            `json:"tag,omitempty"`
	Scope         Scope             `json:"scope"`
	Command       string            `json:"command"` // runs as bash -lc COMMAND
	Cwd           string            `json:"cwd"`     // absolute
	Env           map[string]string `json:"env,omitempty"`
	Cols          int               `json:"cols"`
	Rows          int               `json:"rows"`
	Separate      bool              `json:"separate_streams,omitempty"` // standard output and standard error are pipes with their own logs
	Backend       Backend           `json:"backend"`
	TmuxWorkspace string            `json:"tmux_workspace,omitempty"`
	WorkspaceID   string            `json:"workspace_id,omitempty"`
	OutputBytes   int64             `json:"max_output_bytes"` // size of each log
	RuntimeLimit  time.Duration     `json:"max_runtime,omitempty"`
	OutputRate    int64             `json:"rate_limit_bps,omitempty"` // bytes per second; 0: no limit
	InputRate     int64             `json:"input_rate_bps,omitempty"` // bytes per second; 0: no limit
	ReadTimeout   time.Duration     `json:"read_timeout,omitempty"`   // default timeout of reads
	IdleTimeout   time.Duration     `json:"idle_timeout,omitempty"`   // ends the session after this time without output or use; 0: never
	LogFolder     string            `json:"log_folder,omitempty"`     // contains a log folder for each session; empty: no log
	CreatedAt     time.Time         `json:"created_at"`
}

// ExitReason is the reason for the end of a session.
type ExitReason string

// The reasons.
const (
	Exited   ExitReason = "exited"   // The program ended.
	Killed   ExitReason = "killed"   // A client closed the session.
	TimedOut ExitReason = "timeout"  // The session exceeded its runtime limit or idle timeout.
	Signaled ExitReason = "signaled" // A signal ended the program, and no reason above applies.
	Lost     ExitReason = "lost"     // The session process was killed, or the workspace was stopped.
)

// State is the part of a session that changes while the session runs. The session process writes it
// at the start, at the end, and when the size changes.
type State struct {
	PID      int        `json:"pid"`
	PGID     int        `json:"pgid"`
	Size     Size       `json:"size"`
	EndedAt  time.Time  `json:"ended_at,omitzero"` // zero: the session runs
	ExitCode *int       `json:"exit_code,omitempty"`
	Signal   string     `json:"signal,omitempty"`
	Reason   ExitReason `json:"exit_reason,omitempty"`
	Written  int64      `json:"bytes_written"` // bytes of accepted input
	Refused  int64      `json:"input_refused"` // bytes of input that was rejected because of its rate

	Ending bool `json:"ending,omitempty"` // the programs are being asked to end, or killed

	Echoes []Range `json:"echoes,omitempty"` // echoes of typed text in the unread output, if the session has ended

	Recovered   bool      `json:"recovered,omitempty"` // a new session process replaced one that was killed
	RecoveredAt time.Time `json:"recovered_at,omitzero"`
	LogError    string    `json:"log_error,omitempty"` // why the log in the log folder is incomplete
}

// Size is the size of a terminal in characters.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Running reports whether the session runs.
func (s State) Running() bool { return s.EndedAt.IsZero() }

// NewID returns a new session ID. The ID consists of the time, the PID of the process that creates
// the session, and a random number.
func NewID(now time.Time, pid int) string {
	var random [4]byte
	rand.Read(random[:])
	return fmt.Sprintf("%d-%d-%s", now.UnixMilli(), pid, hex.EncodeToString(random[:]))
}

// Check checks the spec.
func (s *Spec) Check() error {
	wrong := func(format string, args ...any) error { return fault.Newf(fault.Invalid, format, args...) }
	switch {
	case strings.TrimSpace(s.Command) == "":
		return wrong("command is required")
	case len(s.Command) > MaxCommand, strings.ContainsRune(s.Command, 0), !utf8.ValidString(s.Command):
		return wrong("the command must be text of at most %d bytes", MaxCommand)
	case !slices.Contains(Scopes, s.Scope):
		return wrong("scope is %.80q: it must be read-only, read-write, control or admin", s.Scope)
	case s.Cols < 1 || s.Cols > MaxSide || s.Rows < 1 || s.Rows > MaxSide:
		return wrong("a terminal of %d x %d: both must be 1 to %d", s.Cols, s.Rows, MaxSide)
	case s.OutputBytes < 1 || s.OutputBytes > MaxOutput:
		return wrong("max_output_bytes must be 1 to %d", MaxOutput)
	case s.Backend == Tmux && s.Separate:
		return fault.Newf(fault.Unsupported, "separate_streams is not supported by backend=tmux: a pane has one stream")
	case !filepath.IsAbs(s.Cwd):
		return wrong("cwd %.200q is not absolute", s.Cwd)
	case s.LogFolder != "" && !filepath.IsAbs(s.LogFolder):
		return wrong("the log folder %.200q is not absolute", s.LogFolder)
	}
	for name, label := range map[string]string{"name": s.Name, "owner": s.Owner, "tag": s.Tag, "tmux_workspace": s.TmuxWorkspace, "workspace_id": s.WorkspaceID} {
		if len(label) > MaxLabel || !utf8.ValidString(label) || strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return wrong("%s must be text of at most %d bytes, on one line", name, MaxLabel)
		}
	}
	for name, n := range map[string]int64{
		"spawn_timeout_sec": int64(s.RuntimeLimit), "rate_limit_bps": s.OutputRate, "input_rate_bps": s.InputRate, "read_timeout_ms": int64(s.ReadTimeout),
	} {
		if n < 0 {
			return wrong("%s must not be negative", name)
		}
	}
	return s.checkEnv()
}

func (s *Spec) checkEnv() error { return program.CheckEnv(s.Env, MaxEnv) }

// Signals are the signals that pty_signal accepts.
var Signals = program.Signals
