package process

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/session/pane"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// tmuxProgram is a program in a tmux pane. tmux sends the output to the log writer, a separate
// process that writes the log. So no output is lost if the session process is killed. The session
// process reads the log.
type tmuxProgram struct {
	pane   pane.Pane
	folder session.Folder
	spec   session.Spec
	found  pane.Found
	follow *follower
	poll   [2]int // pidfds of the program and the tmux server

	stop     sync.Once
	stopping chan struct{}
	ended    chan struct{}
	status   unix.WaitStatus
	lost     bool
}

// These files in the session's folder belong to its pane.
const (
	launchSocket = "launch"
	notifyName   = "bell" // a FIFO that wakes the session process when there is new output
)

const (
	tmuxPatience  = 10 * time.Second
	endedTime     = 3 * time.Second // time limit for tmux to report the exit status
	logWriterTime = 5 * time.Second // time limit for the log writer to start, or to write the remaining output
	watchTick     = time.Second
	unreadAtOnce  = 1024 // number of unread input bytes at which typing pauses
	unreadTick    = 2 * time.Millisecond
	maxUnreadTick = 50 * time.Millisecond
)

// startPane starts the program of a session in a new pane.
func startPane(folder session.Folder, spec session.Spec) (child, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*tmuxPatience)
	defer cancel()
	p, err := newPane(folder, spec)
	if err != nil {
		return nil, err
	}
	if err := p.open(ctx); err != nil {
		p.follow.Close()
		return nil, errors.Join(err, p.pane.Close(ctx))
	}
	go p.watch()
	return p, nil
}

// findPane finds the pane of an orphaned session. If some output may be missing, it adds a notice
// to the log.
func findPane(folder session.Folder, spec session.Spec, pid int) (child, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	p, err := newPane(folder, spec)
	if err != nil {
		return nil, err
	}
	if p.found, err = p.pane.Find(ctx); err == nil && p.found.PID != pid {
		err = fault.Newf(fault.Precondition, "another program runs in its pane: process %d, not %d", p.found.PID, pid)
	}
	if err == nil && !p.hasLogWriter() {
		err = p.pipeAgain(ctx)
	}
	if err != nil {
		p.follow.Close()
		return nil, err
	}
	p.descriptors()
	go p.watch()
	return p, nil
}

func newPane(folder session.Folder, spec session.Spec) (*tmuxProgram, error) {
	pipe := filepath.Join(string(folder), notifyName)
	if err := unix.Mkfifo(pipe, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, os.NewSyscallError("mkfifo", err)
	}
	follow, err := newFollower(folder, pipe)
	return &tmuxProgram{
		pane: folder.Pane(spec), folder: folder, spec: spec, follow: follow, poll: [2]int{-1, -1}, stopping: make(chan struct{}), ended: make(chan struct{}),
	}, err
}

// open opens the pane. The launcher starts the program only after the log writer runs.
func (p *tmuxProgram) open(ctx context.Context) error {
	listener, err := socket.Listen(string(p.folder), launchSocket)
	if err != nil {
		return err
	}
	defer listener.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if p.found, err = p.pane.Open(ctx, p.spec.Cols, p.spec.Rows, self, session.Command, filepath.Join(string(p.folder), launchSocket)); err != nil {
		return err
	}
	p.descriptors()
	if err := p.pipe(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	conn, err := listener.Accept()
	if err != nil {
		return fault.Newf(fault.Unavailable, "nothing runs in its tmux pane: %w", err)
	}
	c := session.NewConn(conn)
	defer c.Close()
	c.SetDeadline(time.Now().Add(tmuxPatience))
	if err := c.Send(startConfig{environment(p.spec)}); err != nil {
		return err
	}
	var refused fault.Report
	switch err := c.Receive(&refused); {
	case errors.Is(err, io.EOF):
		return nil // the launcher has started the program
	case err != nil:
		return err
	}
	return refused.Err()
}

// pipe starts the log writer.
func (p *tmuxProgram) pipe(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := p.pane.Pipe(ctx, self, session.Command, filepath.Join(string(p.folder), string(session.Output))); err != nil {
		return err
	}
	for deadline := time.Now().Add(logWriterTime); !p.hasLogWriter(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fault.Newf(fault.Unavailable, "the log writer of its tmux pane did not start")
		}
	}
	return nil
}

// pipeAgain starts a new log writer after the previous one was killed.
func (p *tmuxProgram) pipeAgain(ctx context.Context) error {
	l, err := p.folder.Log(session.Output)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := l.Write([]byte("\n[pty-mcp] output may be missing here: its log writer was killed\n")); err != nil {
		return err
	}
	return p.pipe(ctx)
}

// hasLogWriter reports whether the log writer runs.
func (p *tmuxProgram) hasLogWriter() bool {
	held, _ := flock.Held(filepath.Join(string(p.folder), session.LogWriterLock))
	return held
}

// descriptors opens pidfds, because the PIDs of the program and the server can be reused.
func (p *tmuxProgram) descriptors() {
	for i, pid := range []int{p.found.PID, p.found.Server} {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			p.poll[i] = fd
		}
	}
}

// watch waits until the program or the tmux server ends.
func (p *tmuxProgram) watch() {
	defer close(p.ended)
	for {
		fds := make([]unix.PollFd, 0, 2)
		for _, fd := range p.poll {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
		n, err := unix.Poll(fds, int(watchTick.Milliseconds()))
		if n > 0 && err == nil || p.poll[0] < 0 || p.poll[1] < 0 {
			break
		}
		select {
		case <-p.stopping:
		default:
			if !p.hasLogWriter() {
				ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
				p.pipeAgain(ctx)
				cancel()
			}
		}
	}
	for _, fd := range p.poll {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	f, err := p.pane.End(ctx, p.found.PID)
	p.status = f.Status
	p.lost = err != nil || f.PID != p.found.PID || !f.KnowsEnd
}

func (p *tmuxProgram) pid() int { return p.found.PID }
func (p *tmuxProgram) streams() map[session.Stream]io.ReadCloser {
	return map[session.Stream]io.ReadCloser{session.Output: p.follow}
}
func (p *tmuxProgram) wait() (unix.WaitStatus, bool) { <-p.ended; return p.status, p.lost }

// Write types into the pane. It waits while the program does not read, because tmux would queue
// input without a limit.
func (p *tmuxProgram) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		if err := p.awaitRead(); err != nil {
			return n, err
		}
		part := b[n:min(len(b), n+unreadAtOnce)]
		if err := p.pane.Type(context.Background(), part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(b), nil
}

// awaitRead waits until the program has read most of its previous input.
func (p *tmuxProgram) awaitRead() error {
	for tick := unreadTick; ; tick = min(2*tick, maxUnreadTick) {
		unread := 0
		err := onTerminal(p.found.TTY, func(fd int) (err error) { unread, err = unix.IoctlGetInt(fd, unix.TIOCINQ); return err })
		if err != nil || unread < unreadAtOnce {
			return nil // if the terminal is gone, typing returns the error of tmux
		}
		select {
		case <-p.ended:
			return errEnded
		case <-p.stopping:
			return errEnded
		case <-time.After(tick):
		}
	}
}

func (p *tmuxProgram) resize(cols, rows int) error {
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	return p.pane.Resize(ctx, cols, rows)
}

func (p *tmuxProgram) signal(unix.Signal, *input) error {
	return fault.Newf(fault.Unsupported, "pty_signal is not supported by backend=tmux").WithHint("type its key, such as \\u0003 for INT")
}

func (p *tmuxProgram) foreground() (settings *unix.Termios, group int) {
	onTerminal(p.found.TTY, func(fd int) (err error) { settings, err = unix.IoctlGetTermios(fd, unix.TCGETS); return err })
	group = session.ForegroundGroup(p.found.PID)
	if group == p.found.PID { // the launcher and its child share a group
		if below := session.Descendants(group); len(below) > 0 {
			group = below[0]
		}
	}
	return settings, group
}

// kill asks all programs of the session to end, and kills those that still run after grace. Then it
// closes the pane. It does not signal the launcher at first, because the launcher reports how the
// program ended. The launcher must never be stopped with SIGSTOP: tmux would resume its whole
// process group.
func (p *tmuxProgram) kill(grace time.Duration) {
	p.stop.Do(func() { close(p.stopping) })
	belong := session.ProcessFinder(p.spec.ID, p.found.PID)
	programs := func() []int {
		return slices.DeleteFunc(belong(), func(pid int) bool { return pid == p.found.PID })
	}
	if grace > 0 {
		session.AskToEnd(0, grace, programs)
	}
	killAll(programs)
	select {
	case <-p.ended:
	case <-time.After(endedTime):
		killAll(belong)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	p.pane.Close(ctx)
	for deadline := time.Now().Add(logWriterTime); p.hasLogWriter() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	p.follow.Close()
}

// killAll kills processes until none are left, but stops trying after killPatience.
func killAll(belong func() []int) {
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := belong()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// onTerminal calls f with a descriptor of a terminal. It opens the terminal only briefly, because a
// terminal that is open somewhere does not hang up.
func onTerminal(path string, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}
