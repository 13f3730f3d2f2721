package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

const (
	promptPatience = 10 * time.Second // the longest wait for the first prompt of a shell.
	replyPatience  = 5 * time.Second  // the longest wait for output after the start or after input.
	inputPatience  = time.Second      // the longest time that a signal waits for the machine to accept input
)

// readiness records whether a shell accepts input and signals. Before that, a starting shell would
// echo input twice, and a signal could kill the shell or get lost.
type readiness struct {
	now  chan struct{} // closed when the shell is ready
	once sync.Once
}

// init starts to wait until the shell is ready. A shell with prompts is ready at its first output,
// or after promptPatience. Any other program is ready immediately.
func (r *readiness) init(prompts bool) {
	r.now = make(chan struct{})
	if prompts {
		time.AfterFunc(promptPatience, r.set)
	} else {
		r.set()
	}
}

func (r *readiness) set() { r.once.Do(func() { close(r.now) }) }

// typed is the input of a shell. Read waits until the shell is ready.
type typed struct{ *shell }

func (t typed) Read(to []byte) (int, error) {
	<-t.ready.now
	return t.in.Read(to)
}

// question is an event after which a shell is expected to print something: its start, or input.
type question struct {
	at    int64     // the length of the log at that time
	until time.Time // when to stop waiting for output
}

// ask records that output is expected. It must be called before the input is added.
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

// awaitAnswer waits until the shell has printed something after the last question, or until it is
// too late for that (question.until).
func (s *shell) awaitAnswer(ctx context.Context) {
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, asked.until)
	defer cancel()
	s.log.Wait(ctx, asked.at)
}

// signal sends a signal to the foreground group. It first waits for a short time until the terminal
// has earlier input and a shell has read it, except for SIGKILL and SIGHUP. Then SIGINT, SIGQUIT
// and SIGTSTP discard unread input, if their keys discard input on this terminal.
func (s *shell) signal(ctx context.Context, sig syscall.Signal) error {
	typed := s.in.end()
	if sig != syscall.SIGKILL && sig != syscall.SIGHUP {
		select {
		case <-s.ready.now:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		quick, cancel := context.WithTimeout(ctx, inputPatience)
		defer cancel()
		s.in.awaitRead(quick)
	}
	err := s.daemon.machine.Agent.SignalAfter(ctx, s.programID(), sig, typed)
	if err == nil && (sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGTSTP) {
		s.in.dropLine(typed)
	}
	return err
}

// lineLimit returns the longest line that the terminal accepts now, in bytes. It returns 0 if there
// is no limit, or if the machine does not know it.
func (s *shell) lineLimit(ctx context.Context) int {
	if s.inBackground() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, inputPatience)
	defer cancel()
	limit, err := s.daemon.machine.Agent.LineLimit(ctx, s.programID())
	if err != nil {
		slog.Debug("find the limit of a terminal", "shell", s.shellID, "error", err)
	}
	return limit
}

// inbox contains input of a shell that the machine has not accepted yet.
type inbox struct {
	mu       sync.Mutex
	cond     sync.Cond // signalled when typed or closed changes
	typed    []byte
	begun    int    // bytes of an unfinished line
	taking   int    // bytes of the last Read, accepted at the next Read
	accepted uint64 // bytes accepted before those
	closed   bool
}

func (b *inbox) init() { b.cond.L = &b.mu }

// put adds input, either all of it or nothing.
func (b *inbox) put(typed []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return fault.Newf(fault.Precondition, "it has ended")
	case len(b.typed)+len(typed) > shellInput:
		return fault.Newf(fault.Exhausted, "%d bytes already wait for the program to read them", len(b.typed))
	}
	b.typed = append(b.typed, typed...)
	_, b.begun = program.LongestLine(b.begun, typed)
	b.cond.Broadcast()
	return nil
}

// longest returns the length of the longest line that typed makes, in bytes.
func (b *inbox) longest(typed []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	longest, _ := program.LongestLine(b.begun, typed)
	return longest
}

// Read waits for input and returns it.
func (b *inbox) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.typed = append(b.typed[:0], b.typed[b.taking:]...)
	b.accepted, b.taking = b.accepted+uint64(b.taking), 0
	if len(b.typed) == 0 {
		b.cond.Broadcast() // wakes awaitRead
	}
	for len(b.typed) == 0 && !b.closed {
		b.cond.Wait()
	}
	if b.closed {
		return 0, io.EOF
	}
	b.taking = copy(to, b.typed)
	return b.taking, nil
}

// awaitRead waits until the machine has accepted all input or ctx is cancelled.
func (b *inbox) awaitRead(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.cond.Broadcast()
		b.mu.Unlock()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.typed) > 0 && !b.closed && ctx.Err() == nil {
		b.cond.Wait()
	}
}

// end returns the offset of the end of all input.
func (b *inbox) end() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted + uint64(len(b.typed))
}

// dropLine records that the line before the given offset is not continued.
func (b *inbox) dropLine(end uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.accepted+uint64(len(b.typed)) == end {
		b.begun = 0
	}
}

// unread returns the number of bytes that the machine has accepted, and the input after them.
func (b *inbox) unread() (taken uint64, typed []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted, bytes.Clone(b.typed)
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.cond.Broadcast()
	b.mu.Unlock()
}
