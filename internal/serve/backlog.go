package serve

import (
	"context"
	"sync"

	"connectrpc.com/connect"
)

// maxBacklog is the maximum size of the output in a backlog, in bytes. It is more than the lines
// that a terminal of the page keeps.
const maxBacklog = 1 << 20

// eventSize is added to the size of each output, because an event with one byte needs about this
// much memory. Otherwise, a program that prints single bytes could fill the memory of the server.
const eventSize = 256

// backlog contains the events of a stream for which the window of a client has no room yet. The
// server reads the stream without a pause. If the client is too slow, the backlog drops the oldest
// output. Otherwise, megabytes of output would wait in buffers of the connection to the host. The
// client would have to show all of them before the answer to a key.
type backlog[E any] struct {
	mu      sync.Mutex
	events  []sized[E]
	size    int // size of the output of all events
	ended   bool
	err     error         // why the stream ended
	changed chan struct{} // has a buffer for one value
}

// sized is an event with output of a size in bytes. Events without output are never dropped.
type sized[E any] struct {
	event E
	size  int
}

func newBacklog[E any]() *backlog[E] { return &backlog[E]{changed: make(chan struct{}, 1)} }

// add adds an event with output of n bytes. If the backlog is full, add drops half of the output.
func (b *backlog[E]) add(e E, n int) {
	b.mu.Lock()
	if n > 0 {
		n += eventSize
	}
	b.events = append(b.events, sized[E]{e, n})
	if b.size += n; b.size > maxBacklog {
		kept := b.events[:0]
		for _, o := range b.events {
			if o.size > 0 && b.size > maxBacklog/2 {
				b.size -= o.size
			} else {
				kept = append(kept, o)
			}
		}
		clear(b.events[len(kept):])
		b.events = kept
	}
	b.mu.Unlock()
	b.report()
}

// end adds the end of the stream.
func (b *backlog[E]) end(err error) {
	b.mu.Lock()
	b.ended, b.err = true, err
	b.mu.Unlock()
	b.report()
}

func (b *backlog[E]) report() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// next takes the oldest event. It waits for one if there is none. After the last event, ok is false
// and err is the error of end. next returns the error of ctx if ctx is done first.
func (b *backlog[E]) next(ctx context.Context) (e E, ok bool, err error) {
	for {
		b.mu.Lock()
		if len(b.events) > 0 {
			first := b.events[0]
			b.events[0] = sized[E]{}
			b.events = b.events[1:]
			b.size -= first.size
			b.mu.Unlock()
			return first.event, true, nil
		}
		ended, err := b.ended, b.err
		b.mu.Unlock()
		if ended {
			return e, false, err
		}
		select {
		case <-ctx.Done():
			return e, false, ctx.Err()
		case <-b.changed:
		}
	}
}

// forEach calls do with each event of a stream, until do returns last or an error, or the stream
// ends. If w has a limit, the events go through a backlog. size returns the size of the output of
// an event. stop must cancel ctx and the stream. forEach calls it before it returns.
func forEach[E any](ctx context.Context, stop func(), stream *connect.ServerStreamForClient[E], w *window, size func(*E) int, do func(*E) (last bool, err error)) error {
	if w.size <= 0 {
		for stream.Receive() {
			if last, err := do(stream.Msg()); last || err != nil {
				return err
			}
		}
		return ended(stream.Err())
	}
	b := newBacklog[*E]()
	var reading sync.WaitGroup
	reading.Go(func() {
		for stream.Receive() {
			b.add(stream.Msg(), size(stream.Msg()))
		}
		b.end(stream.Err())
	})
	defer reading.Wait()
	defer stop()
	for {
		e, ok, err := b.next(ctx)
		if !ok {
			return ended(err)
		}
		if last, err := do(e); last || err != nil {
			return err
		}
	}
}
