// Package session keeps programs on terminals of this host that nobody need be watching.
//
// Each session has a folder, and a process of its own, its keeper (package keeper), which owns the terminal and everything that was started on it. Whoever uses
// sessions may come, go and be killed: what was asked for, what the program printed, how far that was read, and who has the lease are in the folder. What a session
// printed is read from its log without asking anybody, also when the keeper is no more.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Backend is what a session runs on.
type Backend string

// The backends.
const (
	Subprocess Backend = "subprocess" // a process of the host
	Tmux       Backend = "tmux"       // a pane of tmux
	Workspace  Backend = "workspace"  // the machine of a workspace
)

// Scope is what may be done with a session. Each allows what those before it do.
type Scope string

// The scopes.
const (
	ReadOnly  Scope = "read-only"
	ReadWrite Scope = "read-write" // and write, resize, close
	Control   Scope = "control"    // and signals
	Admin     Scope = "admin"      // and what concerns all sessions
)

// Scopes are all there are, the narrowest first.
var Scopes = []Scope{ReadOnly, ReadWrite, Control, Admin}

// Allows tells whether a scope is at least another.
func (s Scope) Allows(needed Scope) bool {
	return slices.Index(Scopes, s) >= slices.Index(Scopes, needed)
}

// Bounds of what can be asked for.
const (
	MaxSide    = 1000     // columns and rows
	MaxCommand = 64 << 10 // bytes
	MaxOutput  = 64 << 20 // bytes that are kept of what a session prints
	MaxLabel   = 200      // bytes of a name, an owner, a tag
	MaxEnv     = 64 << 10 // bytes of the environment
)

// Spec is what was asked for. It does not change.
type Spec struct {
	ID            string            `json:"id"`
	Name          string            `json:"name,omitempty"`
	Owner         string            `json:"owner,omitempty"`
	Tag           string            `json:"tag,omitempty"`
	Scope         Scope             `json:"scope"`
	Command       string            `json:"command"` // for bash -lc
	Cwd           string            `json:"cwd"`     // absolute
	Env           map[string]string `json:"env,omitempty"`
	Cols          int               `json:"cols"`
	Rows          int               `json:"rows"`
	Separate      bool              `json:"separate_streams,omitempty"` // standard output and error are pipes, each with a log of its own
	Backend       Backend           `json:"backend"`
	TmuxWorkspace string            `json:"tmux_workspace,omitempty"`
	WorkspaceID   string            `json:"workspace_id,omitempty"`
	OutputBytes   int64             `json:"max_output_bytes"` // that are kept
	RuntimeLimit  time.Duration     `json:"max_runtime,omitempty"`
	OutputRate    int64             `json:"rate_limit_bps,omitempty"` // bytes a second, 0: as fast as it goes
	InputRate     int64             `json:"input_rate_bps,omitempty"` // bytes a second, 0: as fast as it goes
	ReadTimeout   time.Duration     `json:"read_timeout,omitempty"`   // for reads that say nothing else
	IdleTimeout   time.Duration     `json:"idle_timeout,omitempty"`   // it is closed when nothing was done with it for so long, 0: never
	LogFolder     string            `json:"log_folder,omitempty"`     // where a transcript and the events are kept
	CreatedAt     time.Time         `json:"created_at"`
}

// ExitReason says why a session ended.
type ExitReason string

// The reasons.
const (
	Exited   ExitReason = "exited"   // the program ended
	Killed   ExitReason = "killed"   // by whoever closed it
	TimedOut ExitReason = "timeout"  // its time was over, or nothing was done with it for too long
	Signaled ExitReason = "signaled" // the program was ended by a signal that nobody here sent
	Lost     ExitReason = "lost"     // its keeper was killed, and it with it
)

// State is what became of a session. Its keeper writes it when it has begun, when its size changes and when it ends.
type State struct {
	PID      int        `json:"pid"`
	PGID     int        `json:"pgid"`
	Size     Size       `json:"size"`
	EndedAt  time.Time  `json:"ended_at,omitzero"` // zero: it runs
	ExitCode *int       `json:"exit_code,omitempty"`
	Signal   string     `json:"signal,omitempty"`
	Reason   ExitReason `json:"exit_reason,omitempty"`
	Written  int64      `json:"bytes_written"` // that were typed
	Refused  int64      `json:"input_refused"` // that were not taken, since they came too fast

	Recovered   bool      `json:"recovered,omitempty"` // its keeper was killed, and it has another
	RecoveredAt time.Time `json:"recovered_at,omitzero"`
	LogError    string    `json:"log_error,omitempty"` // why there is no more in its log folder
}

// Size is that of a terminal, in characters.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Running tells whether it runs.
func (s State) Running() bool { return s.EndedAt.IsZero() }

// NewID makes the id of a session: when it was, who made it, and what nobody else has.
func NewID(now time.Time, pid int) string {
	var random [4]byte
	rand.Read(random[:])
	return fmt.Sprintf("%d-%d-%s", now.UnixMilli(), pid, hex.EncodeToString(random[:]))
}

// Check refuses what can't be.
func (s *Spec) Check() error {
	wrong := func(format string, args ...any) error { return fault.Newf(fault.Invalid, format, args...) }
	switch {
	case strings.TrimSpace(s.Command) == "":
		return wrong("command is required")
	case len(s.Command) > MaxCommand, strings.ContainsRune(s.Command, 0), !utf8.ValidString(s.Command):
		return wrong("the command must be text of at most %d bytes", MaxCommand)
	case !slices.Contains(Scopes, s.Scope):
		return wrong("scope %.80q is none of read-only, read-write, control and admin", s.Scope)
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

func (s *Spec) checkEnv() error {
	total := 0
	for name, value := range s.Env {
		if total += len(name) + len(value) + 2; name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fault.Newf(fault.Invalid, "%.80q is no environment variable", name)
		}
	}
	if total > MaxEnv {
		return fault.Newf(fault.Invalid, "%d bytes of environment variables: at most %d", total, MaxEnv)
	}
	return nil
}

// Signals are those that a session can be sent.
var Signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"TSTP": syscall.SIGTSTP, "CONT": syscall.SIGCONT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}
