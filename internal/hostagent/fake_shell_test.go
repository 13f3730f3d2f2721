package hostagent

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// fakeShell is a program that prints what a test has it print.
type fakeShell struct {
	command client.Command
	out     *transcript.Log
	errs    *transcript.Log

	mu      sync.Mutex
	is      remote.Shell
	typed   string
	signals []syscall.Signal
}

// fakeKept is how much of an output is kept.
const fakeKept = 1 << 20

func (s *fakeShell) now() remote.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.is
	is.OutputBytes = s.out.Len()
	return is
}

// end ends it.
func (s *fakeShell) end(exit client.Exit) {
	s.mu.Lock()
	if s.is.EndedAt.IsZero() {
		s.is.EndedAt, s.is.Exit = time.Now(), &exit
	}
	s.mu.Unlock()
	s.out.End()
	s.errs.End()
}

func (f fake) Open(_ context.Context, tag string, c client.Command) (remote.Shell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.shells, func(s *fakeShell) bool { is := s.now(); return is.Tag == tag && is.EndedAt.IsZero() }) {
		return remote.Shell{}, fault.Newf(fault.Exists, "one that runs has the tag")
	}
	f.shells = slices.DeleteFunc(f.shells, func(s *fakeShell) bool { return s.now().Tag == tag })
	n := len(f.shells) + 1
	s := &fakeShell{command: c, out: transcript.New(fakeKept), errs: transcript.New(fakeKept), is: remote.Shell{ID: "sh-" + strconv.Itoa(n), Tag: tag, PID: 100 + n, Argv: c.Argv}}
	if c.TTY != nil {
		s.is.Cols, s.is.Rows = c.TTY.Cols, c.TTY.Rows
	}
	f.fakes.shells = append(f.shells, s)
	return s.now(), nil
}

func (f fake) Tagged(_ context.Context, tag string) (all []remote.Shell, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shells {
		if is := s.now(); tag == "" || is.Tag == tag {
			all = append(all, is)
		}
	}
	return all, nil
}

// shell gives one by its id or its tag.
func (f *fakes) shell(name string) *fakeShell {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shells {
		if is := s.now(); is.ID == name || is.Tag == name {
			return s
		}
	}
	return nil
}

func (f fake) ReadShell(ctx context.Context, read remote.ShellRead) (remote.ShellOutput, error) {
	s := f.shell(read.ID)
	log := s.out
	if read.Errors {
		log = s.errs
	}
	s.mu.Lock()
	s.is.TakenBytes = max(s.is.TakenBytes, read.Taken)
	s.mu.Unlock()
	long, cancel := context.WithTimeout(ctx, read.Wait)
	defer cancel()
	log.Wait(long, read.Cursor)
	if ctx.Err() != nil {
		return remote.ShellOutput{}, context.Cause(ctx)
	}
	is := s.now()
	p := log.ReadRaw(read.Cursor, read.Chars)
	return remote.ShellOutput{Shell: is, Data: p.Data, From: p.From, Next: p.Next, Dropped: p.Dropped, More: p.More}, nil
}

func (f fake) WriteShell(_ context.Context, id string, typed []byte) (remote.Shell, error) {
	s := f.shell(id)
	if s.now().Exit != nil {
		return remote.Shell{}, fault.Newf(fault.Precondition, "it has ended")
	}
	s.mu.Lock()
	s.typed += string(typed)
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) ResizeShell(_ context.Context, id string, cols, rows int) (remote.Shell, error) {
	s := f.shell(id)
	s.mu.Lock()
	s.is.Cols, s.is.Rows = cols, rows
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) SignalShell(_ context.Context, id string, sig syscall.Signal) (remote.Shell, error) {
	s := f.shell(id)
	if s.now().Exit != nil {
		return remote.Shell{}, fault.Newf(fault.Precondition, "it has ended")
	}
	s.mu.Lock()
	s.signals = append(s.signals, sig)
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) KillShell(_ context.Context, id string) (remote.Shell, error) {
	s := f.shell(id)
	s.end(client.Exit{Code: 137, Signal: 9})
	return s.now(), nil
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time:", what)
		}
	}
}
