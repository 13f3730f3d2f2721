package keeper

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/session/pane"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// inPane is a program in a pane of tmux. What it prints goes from tmux to a relay, a process of its own that writes the log: when the keeper is killed, nothing of
// it is lost. The keeper follows the log.
type inPane struct {
	pane   pane.Pane
	folder session.Folder
	spec   session.Spec
	found  pane.Found
	follow *follower
	poll   [2]int // descriptors of the program's and the server's process

	stop     sync.Once
	stopping chan struct{}
	ended    chan struct{}
	status   unix.WaitStatus
	lost     bool
}

// Parts of a session's folder that belong to its pane.
const (
	launchSocket = "launch"
	bellName     = "bell" // a FIFO: a byte for news in the log
)

const (
	tmuxPatience  = 10 * time.Second
	endedTime     = 3 * time.Second // for tmux to tell how a program ended
	relayTime     = 5 * time.Second // for the relay to write what tmux gave it
	watchTick     = time.Second
	unreadAtOnce  = 1024 // bytes that a program need not have read before more is typed
	unreadTick    = 2 * time.Millisecond
	maxUnreadTick = 50 * time.Millisecond
)

// startPane starts the program of a session in a pane.
func startPane(folder session.Folder, spec session.Spec) (program, error) {
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

// findPane finds the pane of a session whose keeper was killed. The log says so where something that was printed may be missing from it.
func findPane(folder session.Folder, spec session.Spec, pid int) (program, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	p, err := newPane(folder, spec)
	if err != nil {
		return nil, err
	}
	if p.found, err = p.pane.Find(ctx); err == nil && p.found.PID != pid {
		err = fault.Newf(fault.Precondition, "another program runs in its pane: process %d, not %d", p.found.PID, pid)
	}
	if err == nil && !p.relayed() {
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

func newPane(folder session.Folder, spec session.Spec) (*inPane, error) {
	bell := filepath.Join(string(folder), bellName)
	if err := unix.Mkfifo(bell, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, os.NewSyscallError("mkfifo", err)
	}
	follow, err := newFollower(folder, bell)
	return &inPane{
		pane: folder.Pane(spec), folder: folder, spec: spec, follow: follow, poll: [2]int{-1, -1}, stopping: make(chan struct{}), ended: make(chan struct{}),
	}, err
}

// open opens the pane. Its program begins when all that it prints goes to the relay.
func (p *inPane) open(ctx context.Context) error {
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
	if err := c.Send(order{environment(p.spec)}); err != nil {
		return err
	}
	var refused fault.Report
	switch err := c.Receive(&refused); {
	case errors.Is(err, io.EOF):
		return nil // its launcher has no more to say
	case err != nil:
		return err
	}
	return refused.Err()
}

// pipe has the relay write the log from now on.
func (p *inPane) pipe(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := p.pane.Pipe(ctx, self, session.Command, filepath.Join(string(p.folder), string(session.Output))); err != nil {
		return err
	}
	for deadline := time.Now().Add(relayTime); !p.relayed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fault.Newf(fault.Unavailable, "nobody takes what is printed in its tmux pane")
		}
	}
	return nil
}

// pipeAgain is pipe when there was no relay for a while.
func (p *inPane) pipeAgain(ctx context.Context) error {
	l, err := p.folder.Log(session.Output)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := l.Write([]byte("\n[pty-mcp] output may be missing here: what took it was killed\n")); err != nil {
		return err
	}
	return p.pipe(ctx)
}

// relayed tells whether there is a relay.
func (p *inPane) relayed() bool {
	held, _ := flock.Held(filepath.Join(string(p.folder), session.RelayLock))
	return held
}

// descriptors holds on to the processes of the program and of the server: whoever has their numbers later is not taken for them.
func (p *inPane) descriptors() {
	for i, pid := range []int{p.found.PID, p.found.Server} {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			p.poll[i] = fd
		}
	}
}

// watch waits for the end of the program, or of tmux, whichever is first.
func (p *inPane) watch() {
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
			if !p.relayed() {
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

func (p *inPane) pid() int { return p.found.PID }
func (p *inPane) streams() map[session.Stream]io.ReadCloser {
	return map[session.Stream]io.ReadCloser{session.Output: p.follow}
}
func (p *inPane) wait() (unix.WaitStatus, bool) { <-p.ended; return p.status, p.lost }

// Write types. A program that does not read has it wait here, where it is bounded, and not in tmux.
func (p *inPane) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		if err := p.taken(); err != nil {
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

// taken waits until the program has read most of what was typed.
func (p *inPane) taken() error {
	for tick := unreadTick; ; tick = min(2*tick, maxUnreadTick) {
		unread := 0
		err := p.onTerminal(func(fd int) (err error) { unread, err = unix.IoctlGetInt(fd, unix.TIOCINQ); return err })
		if err != nil || unread < unreadAtOnce {
			return nil // tmux tells what is wrong
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

// onTerminal opens the program's terminal for a moment: as long as somebody has it open it does not end.
func (p *inPane) onTerminal(f func(fd int) error) error {
	fd, err := unix.Open(p.found.TTY, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func (p *inPane) resize(cols, rows int) error {
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	return p.pane.Resize(ctx, cols, rows)
}

func (p *inPane) signal(unix.Signal) error {
	return fault.Newf(fault.Unsupported, "pty_signal is not supported by backend=tmux").WithHint("type what sends it, such as \\u0003 for INT")
}

func (p *inPane) foreground() (settings *unix.Termios, group int) {
	p.onTerminal(func(fd int) (err error) { settings, err = unix.IoctlGetTermios(fd, unix.TCGETS); return err })
	group = session.Foreground(p.found.PID)
	if group == p.found.PID { // of the launcher, and of the program that it waits for
		if below := session.Descendants(group); len(below) > 0 {
			group = below[0]
		}
	}
	return settings, group
}

// kill ends all that was started in the pane, and the pane.
func (p *inPane) kill(grace time.Duration) {
	p.stop.Do(func() { close(p.stopping) })
	belong := session.Belonging(p.spec.ID, p.found.PID)
	if grace > 0 {
		session.AskToEnd(p.found.PID, false, grace, belong)
	}
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := belong()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	select {
	case <-p.ended:
	case <-time.After(endedTime):
	}
	ctx, cancel := context.WithTimeout(context.Background(), tmuxPatience)
	defer cancel()
	p.pane.Close(ctx)
	for deadline := time.Now().Add(relayTime); p.relayed() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	p.follow.Close()
}
