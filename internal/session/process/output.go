package process

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/pty"
	"github.com/pyro-mcp/pyro/internal/session"
)

// output writes the program's output to the logs of the session.
type output struct {
	folder session.Folder
	logs   map[session.Stream]*program.SharedLog
	limit  rateLimiter
	screen screen
	record *session.Recorder
	follow bool // the log writer process writes the logs and the recording

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever there is new output
	last    time.Time     // time of the last output
	over    bool
}

func openOutput(folder session.Folder, spec session.Spec, size session.Size) (*output, error) {
	o := &output{folder: folder, logs: map[session.Stream]*program.SharedLog{}, changed: make(chan struct{}), last: time.Now(), follow: spec.Backend == session.Tmux}
	if !o.follow {
		o.limit = newRateLimiter(spec.OutputRate)
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

// chunk is the size of a read. From a terminal the kernel returns at most 4 KiB per read.
const chunk = 64 << 10

// read copies all streams to the logs until the streams end. It delays programs that exceed the
// output rate.
func (o *output) read(from map[session.Stream]io.ReadCloser) *sync.WaitGroup {
	var reading sync.WaitGroup
	for s, r := range from {
		reading.Go(func() {
			add := func(b []byte) { o.append(s, b) }
			if !o.follow {
				redactor := o.folder.NewRedactor(add)
				defer redactor.Close()
				add = redactor.Write
			}
			buffer := make([]byte, chunk)
			for {
				n, err := pty.Read(r, buffer) // for a pipe, this is r.Read
				if n > 0 {
					o.limit.wait(n)
					add(buffer[:n])
				}
				if err != nil {
					return // EIO: all programs have closed the terminal
				}
			}
		})
	}
	return &reading
}

// append adds output and wakes the requests that wait for output.
func (o *output) append(s session.Stream, b []byte) {
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

// write writes output of a stream to the logs.
func (o *output) write(s session.Stream, b []byte) {
	o.logs[session.Output].Write(b)
	if s != session.Output {
		o.logs[s].Write(b)
	}
	o.record.Write(b)
}

// appendNotice adds a line from pyro to the output after the program has ended.
func (o *output) appendNotice(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := []byte("\n[pty-mcp] " + text + "\n")
	o.write(session.Output, line)
	o.screen.write(line)
}

// drainPatience is the maximum time that drain waits.
const drainPatience = 2 * time.Second

// drain waits until all output has been read that the program printed before it ended.
func (o *output) drain(reading *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { reading.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainPatience):
	}
}

// endLogs marks the logs as complete.
func (o *output) endLogs() {
	for _, l := range o.logs {
		l.End()
	}
}

// end wakes all waiting requests, because there will be no more output.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	close(o.changed)
	o.changed = make(chan struct{})
}

// lastUse returns the time of the last output or the last use. It returns the later one.
func (o *output) lastUse() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := time.Unix(0, o.logs[session.Output].Mark().Load()); used.After(o.last) {
		return used
	}
	return o.last
}

// touch records a use of the session.
func (o *output) touch() { o.logs[session.Output].Mark().Store(time.Now().UnixNano()) }

func (o *output) resize(cols, rows int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.screen.resize(cols, rows)
	o.record.Resize(cols, rows)
}

// applicationKeys reports whether the cursor keys are in application mode.
func (o *output) applicationKeys() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.screen.switches.ApplicationKeys()
}

// wait waits as the request says.
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

var errEnded = fault.Newf(fault.Precondition, "it has ended")
