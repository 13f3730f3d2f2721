package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Workspaces starts programs in the machines of workspaces. Implementations need the client of
// supervisors. pty-mcp does not contain that client, so its Main replaces the process with pyro.
type Workspaces interface {
	// Start starts the program of a session, and resumes the workspace if it is paused.
	Start(ctx context.Context, spec session.Spec) (Shell, error)
	// End kills the program of a session whose session process was killed. It does not resume a
	// paused workspace.
	End(ctx context.Context, spec session.Spec) error
}

// Shell is a program in the machine of a workspace. Pausing the workspace suspends the program. All
// methods except Read resume a paused workspace.
type Shell interface {
	PID() int // the PID in the machine
	// Read waits for output after a cursor and returns it. ErrPaused: the workspace is paused.
	// After any other error the program is lost.
	Read(ctx context.Context, stream session.Stream, cursor int64) (Piece, error)
	Write(ctx context.Context, b []byte) error  // Exhausted: the program has not read enough of its earlier input
	LineLimit(ctx context.Context) (int, error) // longest line that its terminal accepts now, in bytes; 0: no limit
	Resize(ctx context.Context, cols, rows int) error
	Signal(ctx context.Context, sig unix.Signal) error // sends a signal to the foreground process group.
	Kill(ctx context.Context) error                    // kills the program and its descendants; returns when the program has ended
	Close(ctx context.Context) error                   // kills the program and deletes its output
}

// Piece is a part of the output of a Shell.
type Piece struct {
	Data    []byte
	Next    int64            // the cursor for the next Read
	Dropped int64            // number of bytes before Data that were lost
	Ended   bool             // the program has ended, and Data is its last output
	Exit    *unix.WaitStatus // nil: unknown
}

// ErrPaused is the error that Shell.Read returns while the workspace is paused.
var ErrPaused = errors.New("the workspace is paused")

const (
	workspacePatience = 2 * time.Minute // time limit for an operation that might resume the workspace
	minRetry          = 20 * time.Millisecond
	maxRetry          = time.Second
)

// workspaceProgram is the program of a session in a workspace.
type workspaceProgram struct {
	shell    Shell
	from     map[session.Stream]io.ReadCloser
	paused   atomic.Bool
	pausedAt atomic.Pointer[time.Time] // when a read last found the workspace paused
	resumed  chan struct{}             // receives a value after an operation succeeded, so the workspace runs
	stopping chan struct{}
	stop     sync.Once
	ended    chan struct{} // closed when exit and lost are set
	exit     unix.WaitStatus
	lost     atomic.Bool
	reading  context.Context // context of Shell.Read
	giveUp   context.CancelFunc
}

// startInWorkspace starts the program of a session in a workspace.
func startInWorkspace(all Workspaces, spec session.Spec) (child, error) {
	if spec.WorkspaceID == "" {
		return nil, fault.Newf(fault.Invalid, "backend \"workspace\" needs a workspace_id").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), workspacePatience)
	defer cancel()
	shell, err := all.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	p := &workspaceProgram{
		shell: shell, from: map[session.Stream]io.ReadCloser{}, resumed: make(chan struct{}, 1), stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	p.reading, p.giveUp = context.WithCancel(context.Background())
	streams := []session.Stream{session.Output}
	if spec.Separate {
		streams = []session.Stream{session.Stdout, session.Stderr}
	}
	var copying sync.WaitGroup
	for _, stream := range streams {
		r, w := io.Pipe()
		p.from[stream] = r
		copying.Go(func() { p.copy(stream, w) })
	}
	go func() {
		copying.Wait()
		close(p.ended)
	}()
	return p, nil
}

// copy copies a stream until the stream ends. If copy is too slow, the machine drops the oldest
// output.
func (p *workspaceProgram) copy(stream session.Stream, to *io.PipeWriter) {
	defer to.Close()
	for cursor, retry := int64(0), minRetry; ; {
		piece, err := p.shell.Read(p.reading, stream, cursor)
		p.paused.Store(errors.Is(err, ErrPaused))
		switch {
		case errors.Is(err, ErrPaused):
			now := time.Now()
			p.pausedAt.Store(&now)
			select {
			case <-time.After(retry):
			case <-p.resumed:
			case <-p.reading.Done():
				p.lost.Store(true)
				return
			}
			retry = min(2*retry, maxRetry)
			continue
		case err != nil:
			if p.reading.Err() == nil {
				fmt.Fprintf(to, "\n[pty-mcp] %s\n", fault.Printable(err.Error()))
			}
			p.lost.Store(true)
			return
		}
		retry = minRetry
		if piece.Dropped > 0 {
			fmt.Fprintf(to, "\n[pty-mcp] %d bytes of output are missing here: the program printed too fast\n", piece.Dropped)
		}
		to.Write(piece.Data)
		cursor = piece.Next
		if !piece.Ended {
			continue
		}
		if stream == session.Stderr {
			return // the copy of standard output records the exit
		}
		if piece.Exit != nil {
			p.exit = *piece.Exit
		}
		p.lost.Store(piece.Exit == nil)
		return
	}
}

func (p *workspaceProgram) pid() int                                        { return p.shell.PID() }
func (p *workspaceProgram) streams() map[session.Stream]io.ReadCloser       { return p.from }
func (p *workspaceProgram) wait() (unix.WaitStatus, bool)                   { <-p.ended; return p.exit, p.lost.Load() }
func (p *workspaceProgram) foreground() (settings *unix.Termios, group int) { return nil, 0 }
func (p *workspaceProgram) suspended() bool                                 { return p.paused.Load() }

// lastPaused returns the time when the workspace was last paused, which is now if it still is. It
// returns zero if the workspace was never paused.
func (p *workspaceProgram) lastPaused() (at time.Time) {
	if p.suspended() {
		return time.Now()
	}
	if last := p.pausedAt.Load(); last != nil {
		at = *last
	}
	return at
}

// do calls f, an operation that resumes the workspace if it is paused.
func (p *workspaceProgram) do(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), workspacePatience)
	defer cancel()
	err := f(ctx)
	if err == nil {
		select {
		case p.resumed <- struct{}{}:
		default:
		}
	}
	return err
}

// Write types into the terminal. It waits while the program does not read its input. If the
// workspace can't be resumed, Write retries until the session ends.
func (p *workspaceProgram) Write(b []byte) (int, error) {
	for n, retry := 0, minRetry; n < len(b); {
		part := b[n:min(len(b), n+chunk)]
		err := p.do(func(ctx context.Context) error { return p.shell.Write(ctx, part) })
		if err == nil {
			n, retry = n+len(part), minRetry
			continue
		}
		switch fault.KindOf(err) {
		case fault.Exhausted:
		case fault.NotFound, fault.Precondition, fault.Unsupported:
			return n, err
		default:
			slog.Error("type into workspace", "error", err)
		}
		select {
		case <-p.ended:
			return n, errEnded
		case <-p.stopping:
			return n, errEnded
		case <-time.After(retry):
			retry = min(2*retry, maxRetry)
		}
	}
	return len(b), nil
}

// lineLimit returns the longest line that the terminal accepts now.
func (p *workspaceProgram) lineLimit() (limit int, err error) {
	err = p.do(func(ctx context.Context) error { limit, err = p.shell.LineLimit(ctx); return err })
	return limit, err
}

func (p *workspaceProgram) resize(cols, rows int) error {
	return p.do(func(ctx context.Context) error { return p.shell.Resize(ctx, cols, rows) })
}

// signal sends a signal. The supervisor discards the input that has reached it. The session process
// does not know the settings of the terminal, so it discards nothing.
func (p *workspaceProgram) signal(sig unix.Signal, _ *input) error {
	return p.do(func(ctx context.Context) error { return p.shell.Signal(ctx, sig) })
}

// kill sends SIGHUP to the foreground twice: the first can end a running command, the second its
// shell. It waits up to grace after each. Then it kills the programs that still run.
func (p *workspaceProgram) kill(grace time.Duration) {
	p.stop.Do(func() { close(p.stopping) })
	for range 2 {
		if grace == 0 || p.hasEnded(0) {
			break
		}
		if p.signal(unix.SIGHUP, nil) == nil {
			p.signal(unix.SIGCONT, nil)
			p.hasEnded(grace)
		}
	}
	if !p.hasEnded(0) {
		if err := p.do(p.shell.Kill); err != nil {
			slog.Error("kill program in workspace", "error", err)
		}
		p.hasEnded(drainPatience)
	}
	if err := p.do(p.shell.Close); err != nil && fault.KindOf(err) != fault.NotFound && !p.lost.Load() {
		slog.Error("close shell in workspace", "error", err)
	}
	p.giveUp()
	for _, r := range p.from {
		if !p.hasEnded(0) {
			r.Close()
		}
	}
	<-p.ended
}

// hasEnded reports whether the program ends within the given time.
func (p *workspaceProgram) hasEnded(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// continueAsPyro replaces this process with the command pyro, which contains the client of
// workspaces. It returns only if that fails.
func continueAsPyro(argument string) error {
	program, err := dirs.Program("")
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if resolved, err := filepath.EvalSymlinks(program); err == nil && resolved == own {
		return fault.New(fault.Unavailable, "find the command pyro", program, "it does not support workspaces").WithHint("set PYRO_PROGRAM to the path of pyro")
	}
	return os.NewSyscallError("execve", syscall.Exec(program, []string{program, session.Command, argument}, os.Environ()))
}
