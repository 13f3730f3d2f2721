// Package keeper is the process that owns one session: its terminal, and all that was started on it.
//
// It ends with the session, and the session with it, however that ends. All that must outlive it is in the session's folder.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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

// program is what runs on the terminal.
type program interface {
	terminal() *os.File       // that is typed into, and read unless the streams are separate
	pid() int                 //
	wait() unix.WaitStatus    // for its end
	kill(grace time.Duration) // all that belongs to it: what does not end within grace
	streams() map[session.Stream]io.ReadCloser
}

// Run keeps the session in a folder until it ends. begun is called once its program runs.
func Run(ctx context.Context, folder session.Folder, begun func()) error {
	lock, err := folder.Keep()
	if err != nil {
		return err
	}
	defer lock.Release()
	spec, err := folder.Spec()
	if err != nil {
		return err
	}
	k := &keeper{folder: folder, spec: spec, ending: make(chan struct{}), ended: make(chan struct{})}
	k.state.Size = session.Size{Cols: spec.Cols, Rows: spec.Rows}
	if k.output, err = openOutput(folder, spec); err != nil {
		return err
	}
	defer k.output.close()
	listener, err := socket.Listen(string(folder), session.SocketName)
	if err != nil {
		return err
	}
	defer listener.Close()
	if k.program, err = start(spec); err != nil {
		return err
	}
	k.in = newInput(k.program.terminal(), spec.InputRate)
	k.state.PID, k.state.PGID = k.program.pid(), k.program.pid()
	if err := folder.SetState(k.state); err != nil {
		k.program.kill(0)
		k.program.wait()
		return fmt.Errorf("note that it runs: %w", err)
	}
	begun()
	serving := k.serve(listener)
	err = k.live(ctx)
	listener.Close()
	serving.Wait()
	return err
}

// live sees the session to its end.
func (k *keeper) live(ctx context.Context) error {
	reading := k.output.read(k.program.streams())
	exited := make(chan unix.WaitStatus, 1)
	go func() { exited <- k.program.wait() }()
	go k.in.pump()
	defer k.in.close()
	var notice string
	expire := k.expiry()
	defer expire.Stop()
	idle := time.NewTicker(idleTick)
	defer idle.Stop()
	for {
		select {
		case status := <-exited:
			k.program.kill(endGrace) // what it left in the background ends with it
			k.output.drain(reading)
			return k.end(status)
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
			status := <-exited
			k.output.drain(reading)
			if notice != "" { // behind all that the program printed
				k.output.say(notice)
			}
			return k.end(status)
		}
	}
}

const (
	idleTick = time.Second
	endGrace = time.Second // between asking a program to end and killing it
)

// expiry fires when the time of the session is over.
func (k *keeper) expiry() *time.Timer {
	if k.spec.RuntimeLimit > 0 {
		return time.NewTimer(k.spec.RuntimeLimit)
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
func (k *keeper) end(status unix.WaitStatus) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.EndedAt, k.state.Reason = time.Now().UTC(), k.reason
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
		k.state.Signal = unix.SignalName(status.Signal())
	}
	k.state.ExitCode = &code
	if k.reason == "" {
		k.state.Reason = session.Exited
		if status.Signaled() {
			k.state.Reason = session.Signaled
		}
	}
	k.state.Written, k.state.Refused = k.in.counts()
	err := k.folder.SetState(k.state)
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
	if err := setSize(k.program.terminal(), cols, rows); err != nil {
		return err
	}
	k.state.Size = session.Size{Cols: cols, Rows: rows}
	k.output.resize(cols, rows)
	return k.folder.SetState(k.state)
}

// output is what a session prints, on its way into its logs.
type output struct {
	logs   map[session.Stream]*transcript.Shared
	bucket bucket
	screen screen

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there is something new
	last    time.Time     // of the last output
	over    bool
}

func openOutput(folder session.Folder, spec session.Spec) (*output, error) {
	o := &output{logs: map[session.Stream]*transcript.Shared{}, changed: make(chan struct{}), bucket: newBucket(spec.OutputRate), last: time.Now()}
	o.screen.init(spec.Cols, spec.Rows)
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
	o.logs[session.Output].Write(b)
	if s != session.Output {
		o.logs[s].Write(b)
	}
	o.screen.write(b)
	o.last = time.Now()
	close(o.changed)
	o.changed = make(chan struct{})
}

// say adds a line of pyro's own to what was printed.
func (o *output) say(text string) { o.take(session.Output, []byte("\n[pty-mcp] "+text+"\n")) }

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
}

// wait waits as a request asks.
func (o *output) wait(ctx context.Context, req session.Request) {
	called := time.Now()
	timeout := time.NewTimer(req.Timeout)
	defer timeout.Stop()
	for {
		o.mu.Lock()
		changed, over := o.changed, o.over
		some := !req.UntilEnd && o.logs[session.Output].Len() > req.Cursor
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

var errEnded = errors.New("the session has ended")
