package daemon

import (
	"bytes"
	"context"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	promptPatience = 10 * time.Second // for the first prompt of a shell
	replyPatience  = 5 * time.Second  // for output after the start of a program, or after input
	inputPatience  = time.Second      // for the machine to accept what was typed before a signal
)

// readiness says whether a shell takes input and signals. A shell that still starts would echo input twice, and a signal could kill it or be ignored.
type readiness struct {
	now  chan struct{} // closed when it is ready
	once sync.Once
}

// init makes a shell that prompts ready with its first output, after promptPatience at the latest; any other program at once.
func (r *readiness) init(prompts bool) {
	r.now = make(chan struct{})
	if prompts {
		time.AfterFunc(promptPatience, r.set)
	} else {
		r.set()
	}
}

func (r *readiness) set() { r.once.Do(func() { close(r.now) }) }

// typed is the input of a shell, as soon as it is ready.
type typed struct{ *shell }

func (t typed) Read(to []byte) (int, error) {
	<-t.ready.now
	return t.in.Read(to)
}

// question is something that a shell is expected to answer with output: its start, or input.
type question struct {
	at    int64     // the end of its log then
	until time.Time // an answer is waited for
}

// ask records that an answer is expected from now on. Call it before the input is typed.
func (s *shell) ask() {
	patience := replyPatience
	select {
	case <-s.ready.now:
	default:
		patience += promptPatience
	}
	s.mu.Lock()
	s.asked = question{s.log.Len(), time.Now().Add(patience)}
	s.mu.Unlock()
}

// awaitAnswer waits for output after the last question, or until it is clear that there will be none.
func (s *shell) awaitAnswer(ctx context.Context) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, asked.until)
	defer cancel()
	s.log.Wait(ctx, asked.at)
}

// signal sends a signal to the foreground of a shell, after all that was typed before. What ends a program in any state does not wait for it.
func (s *shell) signal(ctx context.Context, sig syscall.Signal) error {
	if sig != syscall.SIGKILL && sig != syscall.SIGHUP {
		select {
		case <-s.ready.now:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		quick, cancel := context.WithTimeout(ctx, inputPatience)
		defer cancel()
		s.in.awaitTaken(quick)
	}
	return s.of.machine.Agent.Signal(ctx, s.execID, sig)
}

// inbox is what was typed and not taken yet.
type inbox struct {
	mu     sync.Mutex
	some   sync.Cond // of typed, closed
	typed  []byte
	taking int    // bytes that were read last: they are known to be taken with the next Read
	taken  uint64 // bytes before those
	closed bool
}

func (b *inbox) init() { b.some.L = &b.mu }

// put adds what was typed, all of it or nothing.
func (b *inbox) put(typed []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return fault.Newf(fault.Precondition, "it has ended")
	case len(b.typed)+len(typed) > shellInput:
		return fault.Newf(fault.Exhausted, "%d bytes wait for the program to read them already", len(b.typed))
	}
	b.typed = append(b.typed, typed...)
	b.some.Broadcast()
	return nil
}

// Read waits for what is typed.
func (b *inbox) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.typed = append(b.typed[:0], b.typed[b.taking:]...)
	b.taken, b.taking = b.taken+uint64(b.taking), 0
	if len(b.typed) == 0 {
		b.some.Broadcast() // to awaitTaken
	}
	for len(b.typed) == 0 && !b.closed {
		b.some.Wait()
	}
	if b.closed {
		return 0, io.EOF
	}
	b.taking = copy(to, b.typed)
	return b.taking, nil
}

// awaitTaken waits until the machine has accepted all that was typed, or ctx ends.
func (b *inbox) awaitTaken(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.some.Broadcast()
		b.mu.Unlock()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.typed) > 0 && !b.closed && ctx.Err() == nil {
		b.some.Wait()
	}
}

// left gives what is not known to be taken, and how much is.
func (b *inbox) left() (taken uint64, typed []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken, bytes.Clone(b.typed)
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.some.Broadcast()
	b.mu.Unlock()
}
