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
	"github.com/pyro-mcp/pyro/internal/transcript"
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
		return fault.New(fault.Precondition, "", "", "it has ended")
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
	return nil, fault.New(fault.Unsupported, "", "", "unsupported backend %.40q", k.spec.Backend)
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
	endGrace = time.Second // between asking a program to end and killing it
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
	err := k.folder.SetState(k.state)
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

// output is what a session prints, on its way into its logs.
type output struct {
	logs   map[session.Stream]*transcript.Shared
	bucket bucket
	screen screen
	record *session.Recorder
	follow bool // somebody else writes the logs, and the record

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there is something new
	last    time.Time     // of the last output
	over    bool
}

func openOutput(folder session.Folder, spec session.Spec, size session.Size) (*output, error) {
	o := &output{logs: map[session.Stream]*transcript.Shared{}, changed: make(chan struct{}), last: time.Now(), follow: spec.Backend == session.Tmux}
	if !o.follow {
		o.bucket = newBucket(spec.OutputRate)
	}
	o.record = folder.Record(spec)
	o.screen.init(size.Cols, size.Rows)
	streams := []session.Stream{session.Output}
	if spec.Separate {
		streams = append(streams, session.Stdout, session.Stderr)
	}
	for _, s := range streams {
		l, err := folder.Log(s)
		if err != nil {
			o.close()
			return nil, err
		}
		o.logs[s] = l
	}
	return o, nil
}

func (o *output) close() {
	o.record.Close()
	for _, l := range o.logs {
		l.Close()
	}
}

// chunk is how much is read of a terminal at once: the kernel gives no more than 4 KiB.
const chunk = 64 << 10

// read copies what comes into the logs until all streams are at their end. A program that prints faster than it may has to wait.
func (o *output) read(from map[session.Stream]io.ReadCloser) *sync.WaitGroup {
	var reading sync.WaitGroup
	for s, r := range from {
		reading.Go(func() {
			buffer := make([]byte, chunk)
			for {
				n, err := r.Read(buffer)
				if n > 0 {
					o.bucket.wait(n)
					o.take(s, buffer[:n])
				}
				if err != nil {
					return // a terminal that all have left ends with EIO
				}
			}
		})
	}
	return &reading
}

// take takes what came.
func (o *output) take(s session.Stream, b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.follow {
		o.write(s, b)
	}
	o.screen.write(b)
	o.last = time.Now()
	close(o.changed)
	o.changed = make(chan struct{})
}

// write writes into the logs.
func (o *output) write(s session.Stream, b []byte) {
	o.logs[session.Output].Write(b)
	if s != session.Output {
		o.logs[s].Write(b)
	}
	o.record.Write(b)
}

// say adds a line of pyro's own to what was printed, when nobody writes any more.
func (o *output) say(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := []byte("\n[pty-mcp] " + text + "\n")
	o.write(session.Output, line)
	o.screen.write(line)
}

// drainPatience is how long what was printed before the end may take to come.
const drainPatience = 2 * time.Second

// drain waits for what was printed before the end.
func (o *output) drain(reading *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { reading.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainPatience):
	}
}

// end says that nothing more will come.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, l := range o.logs {
		l.End()
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// lastUse is when something was last printed, or read, or typed.
func (o *output) lastUse() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := time.Unix(0, o.logs[session.Output].Mark().Load()); used.After(o.last) {
		return used
	}
	return o.last
}

// used notes that somebody uses the session.
func (o *output) used() { o.logs[session.Output].Mark().Store(time.Now().UnixNano()) }

func (o *output) resize(cols, rows int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.screen.resize(cols, rows)
	o.record.Resize(cols, rows)
}

// wait waits as a request asks.
func (o *output) wait(ctx context.Context, req session.Request) {
	called := time.Now()
	log := o.logs[req.Stream]
	if log == nil {
		log = o.logs[session.Output]
	}
	timeout := time.NewTimer(req.Timeout)
	defer timeout.Stop()
	for {
		o.mu.Lock()
		changed, over := o.changed, o.over
		some := !req.UntilEnd && log.Len() > req.Cursor
		since := called
		if o.last.After(since) {
			since = o.last
		}
		o.mu.Unlock()
		var quiet <-chan time.Time
		switch left := req.Idle - time.Since(since); {
		case over, req.Idle == 0 && some, req.Idle > 0 && left <= 0:
			return
		case req.Idle > 0:
			quiet = time.After(left)
		}
		select {
		case <-changed:
		case <-quiet:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

var errEnded = fault.New(fault.Precondition, "", "", "it has ended")
