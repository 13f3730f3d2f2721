package keeper

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// output is what a session prints, on its way into its logs.
type output struct {
	folder session.Folder
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
	o := &output{folder: folder, logs: map[session.Stream]*transcript.Shared{}, changed: make(chan struct{}), last: time.Now(), follow: spec.Backend == session.Tmux}
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
			take := func(b []byte) { o.take(s, b) }
			if !o.follow {
				hider := o.folder.NewHider(take)
				defer hider.Close()
				take = hider.Write
			}
			buffer := make([]byte, chunk)
			for {
				n, err := r.Read(buffer)
				if n > 0 {
					o.bucket.wait(n)
					take(buffer[:n])
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

// whole says in the logs that nothing more will come.
func (o *output) whole() {
	for _, l := range o.logs {
		l.End()
	}
}

// end has nobody wait any more.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
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

var errEnded = fault.Newf(fault.Precondition, "it has ended")
