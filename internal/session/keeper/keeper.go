// Package keeper is the process that owns one session: its terminal, and all that was started on it.
//
// It ends with the session, and the session with it, however that ends. All that must outlive it is in the session's folder.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/socket"
)

// keeper owns one session.
type keeper struct {
	folder  session.Folder
	spec    session.Spec
	program program
	output  *output
	in      *input

	mu     sync.Mutex
	state  session.State
	reason session.ExitReason // why it was ended, where it was
	ending chan struct{}      // closed when it is to end
	ended  chan struct{}      // closed when it has, and its state says so
}

// program is what runs on the terminal. What is written to it is typed.
type program interface {
	io.Writer
	pid() int
	wait() (status unix.WaitStatus, lost bool) // for its end: lost where nobody knows how that was
	kill(grace time.Duration)                  // all that belongs to it: what does not end within grace
	resize(cols, rows int) error
	signal(sig unix.Signal) error                    // to what is in the foreground
	foreground() (settings *unix.Termios, group int) // of the terminal
	streams() map[session.Stream]io.ReadCloser       // what it prints
}

// Run keeps the session in a folder until it ends. begun is called once its program runs. Where its keeper was killed, and what runs was not, that is kept on.
func Run(ctx context.Context, folder session.Folder, begun func()) error {
	lock, err := keep(ctx, folder)
	if err != nil {
		return err
	}
	defer lock.Release()
	spec, err := folder.Spec()
	if err != nil {
		return err
	}
	k := &keeper{folder: folder, spec: spec, ending: make(chan struct{}), ended: make(chan struct{})}
	var again bool
	if k.state, again, err = folder.State(); err != nil {
		return err
	}
	if again && !k.state.Running() {
		return fault.Newf(fault.Precondition, "it has ended")
	}
	if !again {
		k.state.Size = session.Size{Cols: spec.Cols, Rows: spec.Rows}
	}
	if k.output, err = openOutput(folder, spec, k.state.Size); err != nil {
		return err
	}
	defer k.output.close()
	listener, err := listen(folder)
	if err != nil {
		return err
	}
	defer listener.Close()
	event := session.Event{Event: "spawn", Command: spec.Command, Cols: spec.Cols, Rows: spec.Rows}
	if again {
		k.state.Recovered, k.state.RecoveredAt = true, time.Now().UTC()
		event = session.Event{Event: "recover"}
	}
	if k.program, err = k.start(again); err != nil {
		return err
	}
	k.in = newInput(k.program, spec.InputRate)
	k.in.written, k.in.refused = k.state.Written, k.state.Refused
	k.state.PID, k.state.PGID = k.program.pid(), k.program.pid()
	if err := folder.SetState(k.state); err != nil {
		k.program.kill(0)
		k.program.wait()
		return fmt.Errorf("note that it runs: %w", err)
	}
	k.note(event)
	begun()
	serving := k.serve(listener)
	err = k.live(ctx)
	listener.Close()
	serving.Wait()
	return err
}

// keep takes the lock of a session. Who only looks whether there is a keeper has it for a moment too.
func keep(ctx context.Context, folder session.Folder) (lock *flock.Lock, err error) {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		if lock, err = folder.Keep(); !errors.Is(err, flock.ErrHeld) || time.Now().After(deadline) || ctx.Err() != nil {
			return lock, err
		}
	}
}

const lockPatience = 2 * time.Second

// listen opens the keeper's socket, in place of that of one that was killed.
func listen(folder session.Folder) (net.Listener, error) {
	if err := os.Remove(filepath.Join(string(folder), session.SocketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return socket.Listen(string(folder), session.SocketName)
}

// start starts what the session runs on, or finds it again.
func (k *keeper) start(again bool) (program, error) {
	switch k.spec.Backend {
	case session.Subprocess, session.Workspace:
		if !again {
			return start(k.spec)
		}
	case session.Tmux:
		if again {
			return findPane(k.folder, k.spec, k.state.PID)
		}
		return startPane(k.folder, k.spec)
	}
	return nil, fault.Newf(fault.Unsupported, "unsupported backend %.40q", k.spec.Backend)
}

// note writes an event into the session's log.
func (k *keeper) note(e session.Event) { k.folder.Note(k.spec, e) }

// live sees the session to its end.
func (k *keeper) live(ctx context.Context) error {
	reading := k.output.read(k.program.streams())
	exited := make(chan struct{})
	go func() { k.program.wait(); close(exited) }()
	go k.in.pump()
	defer k.in.close()
	var notice string
	expire := k.expiry()
	defer expire.Stop()
	idle := time.NewTicker(idleTick)
	defer idle.Stop()
	for {
		select {
		case <-exited:
			k.program.kill(endGrace) // what it left in the background ends with it
			k.output.drain(reading)
			return k.end()
		case <-ctx.Done():
			k.stop(session.Killed)
		case <-expire.C:
			notice = fmt.Sprintf("session timed out (limit %g s)", k.spec.RuntimeLimit.Seconds())
			k.stop(session.TimedOut)
		case <-idle.C:
			if k.spec.IdleTimeout > 0 && time.Since(k.output.lastUse()) > k.spec.IdleTimeout {
				k.stop(session.TimedOut)
			}
		case <-k.ending:
			k.program.kill(endGrace)
			<-exited
			k.output.drain(reading)
			if notice != "" { // behind all that the program printed
				k.output.say(notice)
			}
			return k.end()
		}
	}
}

const (
	idleTick = time.Second
	endGrace = 1500 * time.Millisecond // between asking programs to end and killing them; the first has it again
)

// expiry fires when the time of the session is over.
func (k *keeper) expiry() *time.Timer {
	if left := k.spec.RuntimeLimit; left > 0 {
		if k.state.Recovered {
			left -= time.Since(k.spec.CreatedAt)
		}
		return time.NewTimer(max(0, left))
	}
	never := time.NewTimer(time.Hour)
	never.Stop()
	return never
}

// stop has the session end, for the first reason that is given.
func (k *keeper) stop(why session.ExitReason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reason == "" {
		k.reason = why
		close(k.ending)
	}
}

// end notes how the program ended.
func (k *keeper) end() error {
	k.in.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	status, lost := k.program.wait()
	k.state.EndedAt, k.state.Reason = time.Now().UTC(), k.reason
	if !lost {
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
			k.state.Signal = unix.SignalName(status.Signal())
		}
		k.state.ExitCode = &code
	}
	switch {
	case k.reason != "":
	case lost:
		k.state.Reason = session.Lost
	case status.Signaled():
		k.state.Reason = session.Signaled
	default:
		k.state.Reason = session.Exited
	}
	k.state.Written, k.state.Refused = k.in.counts()
	k.output.whole() // before the state: who sees that it has ended need wait for no more output, also where this process is killed in between
	err := errors.Join(k.folder.Forget(), k.folder.SetState(k.state))
	k.note(session.Event{Event: "exit", Reason: string(k.state.Reason), Code: k.state.ExitCode})
	k.output.end()
	close(k.ended)
	return err
}

// resize gives the terminal another size.
func (k *keeper) resize(cols, rows int) error {
	if cols < 1 || cols > session.MaxSide || rows < 1 || rows > session.MaxSide {
		return fmt.Errorf("a terminal of %d x %d: both must be 1 to %d", cols, rows, session.MaxSide)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.program.resize(cols, rows); err != nil {
		return err
	}
	k.state.Size = session.Size{Cols: cols, Rows: rows}
	k.state.Written, k.state.Refused = k.in.counts()
	k.output.resize(cols, rows)
	return k.folder.SetState(k.state)
}
