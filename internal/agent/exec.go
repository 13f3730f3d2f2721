package agent

import (
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
	command  *os.Process

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there is something new
	exit    *agentv1.Exit // set when it has been reaped and its output is at its end
	reaped  bool
	timer   *time.Timer
	late    bool // its time limit was over
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
}

func startPump(from *os.File, to *output) *pump {
	p := &pump{from, to, make(chan struct{})}
	go func() {
		defer close(p.done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				to.write(buffer[:n])
			}
			if err != nil { // io.EOF; EIO of a PTY whose last user is gone; the deadline of finish
				return
			}
		}
	}()
	return p
}

// finish waits for the end of the stream, or until nothing has come for heldPatience, and tells whether somebody still holds the stream open.
// All that was written before the call has then been read, however slowly the reader takes it.
func (p *pump) finish() (held bool) {
	p.from.SetReadDeadline(time.Now().Add(heldPatience))
	<-p.done
	// The deadline may have struck while the pump was waiting for room: what is in the pipe by now was written before.
	p.from.SetReadDeadline(time.Time{})
	held = true
	raw, err := p.from.SyscallConn()
	if err == nil {
		buffer := make([]byte, 64<<10) // as much as a pipe holds
		raw.Read(func(fd uintptr) bool {
			n, err := unix.Read(int(fd), buffer)
			if n > 0 {
				p.to.write(buffer[:n])
			}
			held = n > 0 || errors.Is(err, unix.EAGAIN)
			return true
		})
	}
	p.to.close()
	if held {
		go p.drain()
		return true
	}
	p.from.Close()
	return false
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

// watch reaps the process, has its output finished, and tells the end.
func (p *process) watch(pumps []*pump, release func()) {
	state, err := p.command.Wait()
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
	} else if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		exit.Signal = uint32(status.Signal())
		exit.Code = 128 + int32(status.Signal())
	} else {
		exit.Code = int32(status.ExitStatus())
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
	p.mu.Unlock()
	p.wake()
	release()
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
		p.mu.Unlock()
		p.group.Kill(p.command.Pid)
	})
}

// signal sends a signal to the process group; with a terminal, to its foreground group.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	group := p.command.Pid
	if p.terminal != nil {
		if raw, err := p.terminal.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				// The number is that of the namespace of whoever asks; the master's owner is outside of it and sees the right one.
				if fg, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil && fg > 0 {
					group = fg
				}
			})
		}
	}
	return syscall.Kill(-group, sig)
}

// execs are the execs that an agent knows.
type execs struct {
	mu   sync.Mutex
	byID map[string]*process
}

func newExecs() execs { return execs{byID: map[string]*process{}} }

var (
	errKnown   = errors.New("an exec of this id is known already")
	errTooMany = errors.New("too many execs are known: release those that have ended")
	errUnknown = errors.New("no exec of this id is known")
)

// reserve takes an id for an exec that is about to be started.
func (e *execs) reserve(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.byID[id]; known {
		return errKnown
	}
	if len(e.byID) >= maxExecs {
		return errTooMany
	}
	e.byID[id] = nil
	return nil
}

func (e *execs) set(id string, p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p == nil {
		delete(e.byID, id)
		return
	}
	e.byID[id] = p
}

func (e *execs) get(id string) *process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byID[id]
}

// forget forgets an exec that has ended.
func (e *execs) forget(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known := e.byID[id]
	if !known {
		return nil
	}
	if p == nil || p.ended() == nil {
		return errors.New("it has not ended")
	}
	delete(e.byID, id)
	return nil
}
