package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// process is one exec: a process, its output and its input.
type process struct {
	id     string
	group  Group
	began  time.Time
	stdout *output
	stderr *output // nil with a terminal
	input  *input

	terminal *os.File // the controlling end of the PTY, or nil
	command  Process

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there is something new
	exit    *agentv1.Exit // set when it has been reaped and its output is at its end
	reaped  bool
	timer   *time.Timer
	late    bool // its time limit was over

	released bool // it is to be forgotten when it has ended
}

// wake tells those who follow that there is something new.
func (p *process) wake() {
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

// news is closed when there is something newer than what was looked at after the call.
func (p *process) news() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *process) ended() *agentv1.Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// pump reads one stream of the process to its end. After the process has been reaped it may find somebody else holding the stream open.
type pump struct {
	from *os.File
	to   *output
	done chan struct{}
	late bool // it ended because of expire, before the stream did
}

func startPump(from *os.File, to *output) *pump {
	p := &pump{from: from, to: to, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				to.write(buffer[:n])
			}
			if err != nil { // io.EOF; EIO of a PTY whose last user is gone; the deadline of expire
				p.late = errors.Is(err, os.ErrDeadlineExceeded)
				return
			}
		}
	}()
	return p
}

// expire ends the wait for the end of the stream after a time.
func (p *pump) expire(after time.Duration) { p.from.SetReadDeadline(time.Now().Add(after)) }

// finish waits for the end of the stream or for what expire allows, and tells whether somebody still holds the stream open.
// All that was written before has then been read, however slowly the reader takes it.
func (p *pump) finish() (held bool) {
	<-p.done
	held = p.late && p.rest()
	p.to.close()
	if held {
		go p.drain()
		return true
	}
	p.from.Close()
	return false
}

// rest reads what is left in a stream whose time was over, which may have been while the pump waited for room, and tells whether somebody holds it open.
func (p *pump) rest() (held bool) {
	p.from.SetReadDeadline(time.Time{})
	raw, err := p.from.SyscallConn()
	if err != nil {
		return false
	}
	buffer := make([]byte, 32<<10)
	raw.Read(func(fd uintptr) bool {
		// More than the stream can hold was not there when this began: somebody goes on writing.
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

// terminalCapacity is more than the kernel keeps of a PTY's output.
const terminalCapacity = 64 << 10

// capacity is how much a pipe, or a PTY, can hold.
func capacity(fd uintptr) int {
	if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
		return n
	}
	return terminalCapacity
}

// drain keeps those who hold the stream open from being stopped by it, until the last of them is gone.
func (p *pump) drain() {
	defer p.from.Close()
	buffer := make([]byte, 4<<10)
	for {
		if _, err := p.from.Read(buffer); err != nil {
			return
		}
	}
}

// watch reaps the process, has its output finished, and tells the end. forget is called then, where that was asked for.
func (p *process) watch(pumps []*pump, forget func()) {
	status, err := p.command.Wait()
	took := time.Since(p.began)
	p.mu.Lock()
	p.reaped = true
	late := p.late
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()

	exit := &agentv1.Exit{DurationMs: took.Milliseconds(), TimedOut: late}
	if err != nil {
		exit.Code, exit.Message = 125, err.Error()
	} else if status.Signaled() {
		exit.Signal = uint32(status.Signal())
		exit.Code = 128 + int32(status.Signal())
	} else {
		exit.Code = int32(status.ExitStatus())
	}
	patience := heldPatience
	if late {
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
	p.wake()
	p.group.Release()
	if released {
		forget()
	}
}

// release lets the process go on to its end without a reader, and tells whether it has ended.
func (p *process) release() (ended bool) {
	p.mu.Lock()
	p.released = true
	ended = p.exit != nil
	p.mu.Unlock()
	for _, o := range p.outputs() {
		o.forget()
	}
	return ended
}

// limit has everything that the exec started killed when its time is over.
func (p *process) limit(timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if timeout <= 0 || p.reaped {
		return
	}
	p.timer = time.AfterFunc(timeout, func() {
		p.mu.Lock()
		p.late = !p.reaped
		late := p.late
		p.mu.Unlock()
		if late {
			p.group.Kill(p.command.PID())
		}
	})
}

// signal sends a signal to the process group; with a terminal, to its foreground group, once that has read what was typed before.
func (p *process) signal(ctx context.Context, sig syscall.Signal) error {
	if p.terminal != nil && sig != syscall.SIGKILL && sig != syscall.SIGHUP {
		p.awaitRead(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	group := p.command.PID()
	if p.terminal != nil {
		fg, known := foreground(p.terminal)
		switch {
		case known && fg > 0:
			group = fg
		case !known && typeSignal(p.terminal, sig):
			return nil
		case !known:
			group = youngest(group)
		}
	}
	return syscall.Kill(-group, sig)
}
