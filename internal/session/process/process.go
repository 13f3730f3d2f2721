// Package process implements the session process. It owns one session, its terminal and its
// programs.
//
// The session ends when its process ends, except in tmux. All state that outlives the process is in
// the folder of the session.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// sessionProcess owns one session.
type sessionProcess struct {
	folder   session.Folder
	spec     session.Spec
	program  child
	machines Workspaces // nil: this binary does not contain the client of workspaces
	output   *output
	in       *input

	mu     sync.Mutex
	state  session.State
	begun  int                // bytes of the typed line, if its end is not typed yet
	typed  []typedText        // texts that the program or its terminal can echo
	reason session.ExitReason // empty: neither a client nor a limit ended the session.
	ending chan struct{}      // closed when the session must end.
	ended  chan struct{}      // closed when the session has ended and its state is saved.
}

// child is the program of a session. Its method Write types into the terminal.
type child interface {
	io.Writer
	pid() int
	wait() (status unix.WaitStatus, lost bool) // waits for the end; lost: the exit status is unknown
	kill(grace time.Duration)                  // asks all programs of the session to end; after grace, kills those that still run
	resize(cols, rows int) error
	// signal sends a signal to the foreground process group. If the key for the signal discards
	// unread input, signal discards it too, with the queued input.
	signal(sig unix.Signal, queued *input) error
	foreground() (settings *unix.Termios, group int) // settings and foreground process group of the terminal; nil, 0: unknown
	streams() map[session.Stream]io.ReadCloser       // output streams
}

// Run runs the session in a folder until the session ends. It calls begun when the program runs. If
// a killed session process left the program running, Run takes over that program.
func Run(ctx context.Context, folder session.Folder, machines Workspaces, begun func()) error {
	lock, err := keep(ctx, folder)
	if err != nil {
		return err
	}
	defer lock.Release()
	spec, err := folder.Spec()
	if err != nil {
		return err
	}
	p := &sessionProcess{folder: folder, spec: spec, machines: machines, ending: make(chan struct{}), ended: make(chan struct{})}
	var again bool
	if p.state, again, err = folder.State(); err != nil {
		return err
	}
	if again && !p.state.Running() {
		return fault.Newf(fault.Precondition, "it has ended")
	}
	if !again {
		p.state.Size = session.Size{Cols: spec.Cols, Rows: spec.Rows}
	}
	if p.output, err = openOutput(folder, spec, p.state.Size); err != nil {
		return err
	}
	defer p.output.close()
	listener, err := listen(folder)
	if err != nil {
		return err
	}
	defer listener.Close()
	event := session.Event{Event: "spawn", Command: spec.Command, Cols: spec.Cols, Rows: spec.Rows}
	if again {
		p.state.Recovered, p.state.RecoveredAt = true, time.Now().UTC()
		event = session.Event{Event: "recover"}
	}
	if p.program, err = p.start(again); err != nil {
		return err
	}
	p.in = newInput(p.program, spec.InputRate)
	p.in.written, p.in.refused = p.state.Written, p.state.Refused
	p.state.PID, p.state.PGID = p.program.pid(), p.program.pid()
	if err := folder.SetState(p.state); err != nil {
		p.program.kill(0)
		p.program.wait()
		return fmt.Errorf("write the state: %w", err)
	}
	p.note(event)
	begun()
	serving := p.serve(listener)
	err = p.live(ctx)
	listener.Close()
	serving.Wait()
	return err
}

// keep takes the lock of the session. It retries, because a probe also holds the lock briefly.
func keep(ctx context.Context, folder session.Folder) (lock *flock.Lock, err error) {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		if lock, err = folder.LockProcess(); !errors.Is(err, flock.ErrHeld) || time.Now().After(deadline) || ctx.Err() != nil {
			return lock, err
		}
	}
}

const lockPatience = 2 * time.Second

// listen opens the socket of the session. It first removes a socket that a killed process left.
func listen(folder session.Folder) (net.Listener, error) {
	if err := os.Remove(filepath.Join(string(folder), session.SocketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return socket.Listen(string(folder), session.SocketName)
}

// start starts the program. If again is set, it finds the running program instead.
func (p *sessionProcess) start(again bool) (child, error) {
	switch p.spec.Backend {
	case session.Subprocess:
		if !again {
			return start(p.spec)
		}
	case session.Workspace:
		if !again {
			return startInWorkspace(p.machines, p.spec)
		}
	case session.Tmux:
		if again {
			return findPane(p.folder, p.spec, p.state.PID)
		}
		return startPane(p.folder, p.spec)
	}
	return nil, fault.Newf(fault.Unsupported, "unsupported backend %.40q", p.spec.Backend)
}

// note adds an event to the session's log.
func (p *sessionProcess) note(e session.Event) { p.folder.AppendEvent(p.spec, e) }

// endGrace is [session.EndGrace], except in a test.
var endGrace = session.EndGrace

// live runs the session until it ends.
func (p *sessionProcess) live(ctx context.Context) error {
	reading := p.output.read(p.program.streams())
	exited := make(chan struct{})
	go func() { p.program.wait(); close(exited) }()
	go p.in.pump()
	defer p.in.close()
	var notice string
	expire := p.expiry()
	defer expire.Stop()
	idle := timer(p.spec.IdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-exited:
			p.program.kill(endGrace) // ends background programs
			p.output.drain(reading)
			return p.end()
		case <-ctx.Done():
			p.stop(session.Killed)
		case <-expire.C:
			if p.suspended() {
				expire.Reset(maxRetry) // a resume is noticed within this time
				continue
			}
			notice = fmt.Sprintf("session timed out (limit %g s)", p.spec.RuntimeLimit.Seconds())
			p.stop(session.TimedOut)
		case <-idle.C:
			if left := p.spec.IdleTimeout - time.Since(p.lastActive()); left > 0 {
				idle.Reset(left)
				continue
			}
			p.stop(session.TimedOut)
		case <-p.ending:
			p.program.kill(endGrace)
			<-exited
			p.output.drain(reading)
			if notice != "" { // the notice comes after all output of the program
				p.output.appendNotice(notice)
			}
			return p.end()
		}
	}
}

// suspended reports whether the program is suspended because its workspace is paused. The session's
// limits do not apply then, because ending the program would resume the workspace.
func (p *sessionProcess) suspended() bool {
	w, ok := p.program.(*workspaceProgram)
	return ok && w.suspended()
}

// lastActive returns when the session last had output, was used, or was paused. The time of a
// pause does not count towards the idle timeout.
func (p *sessionProcess) lastActive() time.Time {
	last := p.output.lastUse()
	if w, ok := p.program.(*workspaceProgram); ok {
		if paused := w.lastPaused(); paused.After(last) {
			return paused
		}
	}
	return last
}

// expiry returns a timer that fires at the runtime limit of the session.
func (p *sessionProcess) expiry() *time.Timer {
	left := p.spec.RuntimeLimit
	if left > 0 && p.state.Recovered {
		left = max(1, left-time.Since(p.spec.CreatedAt))
	}
	return timer(left)
}

// timer returns a timer that fires after the limit. If the limit is 0, it never fires.
func timer(limit time.Duration) *time.Timer {
	t := time.NewTimer(limit)
	if limit == 0 {
		t.Stop()
	}
	return t
}

// stop ends the session. If it is called several times, the first reason is recorded.
func (p *sessionProcess) stop(why session.ExitReason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = why
		p.state.Ending = true
		if err := p.folder.SetState(p.state); err != nil {
			slog.Error("write state", "session", p.spec.ID, "error", err)
		}
		close(p.ending)
	}
}

// end records the exit of the program and the end of the session.
func (p *sessionProcess) end() (err error) {
	p.in.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	status, lost := p.program.wait()
	p.state.EndedAt, p.state.Reason, p.state.Ending = time.Now().UTC(), p.reason, false
	if !lost {
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
			p.state.Signal = unix.SignalName(status.Signal())
		}
		p.state.ExitCode = &code
	}
	switch {
	case p.reason != "":
	case lost:
		p.state.Reason = session.Lost
	case status.Signaled():
		p.state.Reason = session.Signaled
	default:
		p.state.Reason = session.Exited
	}
	p.state.Written, p.state.Refused = p.in.counts()
	if p.state.Echoes, err = p.findEchoes(p.output.logs[session.Output].Cursor()); err != nil {
		slog.Error("find echoes", "session", p.spec.ID, "error", err)
	}
	p.output.endLogs() // before the state: an ended session must have complete logs, even after a crash in between
	err = errors.Join(p.folder.RemoveSecrets(), p.folder.SetState(p.state))
	p.note(session.Event{Event: "exit", Reason: string(p.state.Reason), Code: p.state.ExitCode})
	p.output.end()
	close(p.ended)
	return err
}

// resize sets the size of the terminal.
func (p *sessionProcess) resize(cols, rows int) error {
	if cols < 1 || cols > session.MaxSide || rows < 1 || rows > session.MaxSide {
		return fmt.Errorf("a terminal of %d x %d: both must be 1 to %d", cols, rows, session.MaxSide)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.program.resize(cols, rows); err != nil {
		return err
	}
	p.state.Size = session.Size{Cols: cols, Rows: rows}
	p.state.Written, p.state.Refused = p.in.counts()
	p.output.resize(cols, rows)
	return p.folder.SetState(p.state)
}
