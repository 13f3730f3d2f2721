package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/pty"
)

// process is a process with its output and input.
type process struct {
	id     string
	group  Group
	began  time.Time
	stdout *output
	stderr *output // nil if the process has a terminal
	input  *input

	terminal *os.File // the controlling end of the PTY; nil without a terminal
	command  Process

	mu       sync.Mutex
	changed  chan struct{}   // closed and replaced when the state changes
	exit     *programv1.Exit // set after the process was reaped and its output is complete
	reaped   bool
	timer    *time.Timer
	timedOut bool // the process reached its time limit

	released bool // remove the exec from execs when the process ends
}

// notify wakes up the followers of the process.
func (p *process) notify() {
	p.mu.Lock()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
}

func (p *process) outputs() []*output {
	if p.stderr == nil {
		return []*output{p.stdout}
	}
	return []*output{p.stdout, p.stderr}
}

// nextChange returns a channel that is closed at the next change. Call nextChange before reading
// the state, so that no change is missed.
func (p *process) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *process) ended() *programv1.Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// hasEnded reports whether the first process of the exec has ended.
func (p *process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// pump copies one output stream of the process to its log. After the process has ended, other
// processes can still write to the stream.
type pump struct {
	from    *os.File
	to      *output
	done    chan struct{}
	expired bool // the copy stopped at the deadline that expire set, before the end of the stream
}

func startPump(from *os.File, to *output) *pump {
	p := &pump{from: from, to: to, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := pty.Read(from, buffer) // for a pipe, this is from.Read
			if n > 0 {
				to.write(buffer[:n])
			}
			if err != nil { // io.EOF, EIO from a PTY without users, or the deadline of expire
				p.expired = errors.Is(err, os.ErrDeadlineExceeded)
				return
			}
		}
	}()
	return p
}

// expire limits how long the pump waits for the end of the stream.
func (p *pump) expire(after time.Duration) { p.from.SetReadDeadline(time.Now().Add(after)) }

// finish waits until the stream ends or the deadline of expire has passed. held reports whether
// another process can still write to the stream. When finish returns, the log has all bytes that
// were written before the process ended, even if the reader is slow.
func (p *pump) finish() (held bool) {
	<-p.done
	held = p.expired && p.readRemaining()
	p.to.close()
	if held {
		go p.drain()
		return true
	}
	p.from.Close()
	return false
}

// readRemaining reads the bytes that are still in a stream after the deadline. Such bytes can exist
// because the pump does not read while the log is full. held reports whether another process can
// still write to the stream.
func (p *pump) readRemaining() (held bool) {
	p.from.SetReadDeadline(time.Time{})
	raw, err := p.from.SyscallConn()
	if err != nil {
		return false
	}
	buffer := make([]byte, 32<<10)
	raw.Read(func(fd uintptr) bool {
		// The stream can buffer only this many bytes. Any further byte was written after
		// readRemaining started, so a process is still writing.
		for left := capacity(fd); left >= 0; {
			n, err := unix.Read(int(fd), buffer)
			switch {
			case n > 0:
				p.to.write(buffer[:n])
				left -= n
			case err != unix.EINTR:
				held = err == unix.EAGAIN
				return true
			}
		}
		held = true
		return true
	})
	return held
}

// terminalCapacity is an upper bound of how much output the kernel buffers for a PTY, in bytes.
// gVisor buffers up to 132 KiB: two blocks of 64 KiB and a line of 4 KiB.
const terminalCapacity = 192 << 10

// capacity returns how many bytes a pipe or PTY can buffer.
func capacity(fd uintptr) int {
	if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
		return n
	}
	return terminalCapacity
}

// drain discards output until all processes have closed the stream. Otherwise a full stream would
// block them.
func (p *pump) drain() {
	defer p.from.Close()
	buffer := make([]byte, 4<<10)
	for {
		if _, err := p.from.Read(buffer); err != nil {
			return
		}
	}
}

// watch waits until the process ends and its output is complete, and then sets exit. If the process
// was released, watch calls the function forget.
func (p *process) watch(pumps []*pump, forget func()) {
	status, err := p.command.Wait()
	took := time.Since(p.began)
	p.mu.Lock()
	p.reaped = true
	timedOut := p.timedOut
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()

	exit := &programv1.Exit{DurationNs: int64(took.Truncate(time.Millisecond)), TimedOut: timedOut}
	if err != nil {
		exit.Code, exit.NotRun = 125, err.Error()
	} else if status.Signaled() {
		exit.Signal = int32(status.Signal())
		exit.Code = 128 + int32(status.Signal())
	} else {
		exit.Code = int32(status.ExitStatus())
	}
	patience := heldPatience
	if timedOut {
		patience = killedPatience
	}
	for _, pump := range pumps {
		pump.expire(patience)
	}
	for _, pump := range pumps {
		if pump.finish() {
			exit.OutputHeld = true
		}
	}
	exit.OutOfMemory = p.group.OutOfMemory()
	p.input.end()
	p.mu.Lock()
	p.exit = exit
	released := p.released
	p.mu.Unlock()
	p.notify()
	p.group.Release()
	if released {
		forget()
	}
}

// release marks the process as released. From then on, the process runs without a reader. ended
// reports whether the process has ended.
func (p *process) release() (ended bool) {
	p.mu.Lock()
	p.released = true
	ended = p.exit != nil
	p.mu.Unlock()
	for _, o := range p.outputs() {
		o.detach()
	}
	return ended
}

// limit kills everything that the exec has started when the time limit expires. A limit of 0 or
// less means none.
func (p *process) limit(timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if timeout <= 0 || p.reaped {
		return
	}
	p.timer = time.AfterFunc(timeout, func() {
		p.mu.Lock()
		p.timedOut = !p.reaped
		timedOut := p.timedOut
		p.mu.Unlock()
		if timedOut {
			p.group.Kill(p.command.PID())
		}
	})
}

// signal sends a signal to the process group. If the process has a terminal, signal first waits
// until a foreground shell has read its input. It then sends the signal to the foreground group,
// and discards unread input as the key for the signal does (input.interrupt). After such a signal,
// it waits until the shell has handled the signal, because the shell could also discard input that
// arrives later.
func (p *process) signal(ctx context.Context, sig syscall.Signal, typed uint64) error {
	if p.terminal == nil {
		return p.send(sig)
	}
	if sig != syscall.SIGKILL && sig != syscall.SIGHUP {
		p.awaitRead(ctx)
	}
	if pty.SignalKeys(p.terminal).DiscardsFor(sig) {
		err := p.input.interrupt(sig, typed, func() error { return p.send(sig) })
		if err == nil {
			p.awaitRead(ctx)
		}
		return err
	}
	return p.send(sig)
}

// send sends a signal to the process group, or to the foreground group of the terminal.
func (p *process) send(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	group := p.command.PID()
	if p.terminal != nil {
		fg, known := pty.Foreground(p.terminal)
		switch {
		case known && fg > 0:
			group = fg
		case !known && pty.TypeSignal(p.terminal, sig):
			return nil
		case !known:
			group = newestGroup(group)
		}
	}
	return syscall.Kill(-group, sig)
}
