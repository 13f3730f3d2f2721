package hostagent

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// fakeShell is a fake program. The test writes its output.
type fakeShell struct {
	command program.Command
	out     *program.Log
	errs    *program.Log

	mu      sync.Mutex
	is      workspace.Shell
	typed   string
	signals []syscall.Signal
}

// fakeLogSize is the maximum size of the stored output, in bytes.
const fakeLogSize = 1 << 20

func (s *fakeShell) now() workspace.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.is
	is.OutputBytes = s.out.Len()
	return is
}

// end ends the program.
func (s *fakeShell) end(exit program.Exit) {
	s.mu.Lock()
	if s.is.EndedAt.IsZero() {
		s.is.EndedAt, s.is.Exit = time.Now(), &exit
	}
	s.mu.Unlock()
	s.out.End()
	s.errs.End()
}

func (f fake) Open(_ context.Context, tag string, c program.Command) (workspace.Shell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.shells, func(s *fakeShell) bool { is := s.now(); return is.Tag == tag && is.EndedAt.IsZero() }) {
		return workspace.Shell{}, fault.Newf(fault.Exists, "a running program has the tag")
	}
	f.shells = slices.DeleteFunc(f.shells, func(s *fakeShell) bool { return s.now().Tag == tag })
	n := len(f.shells) + 1
	s := &fakeShell{command: c, out: program.NewLog(fakeLogSize), errs: program.NewLog(fakeLogSize), is: workspace.Shell{ID: "sh-" + strconv.Itoa(n), Tag: tag, PID: 100 + n, Argv: c.Argv}}
	if c.TTY != nil {
		s.is.Cols, s.is.Rows = c.TTY.Cols, c.TTY.Rows
	}
	f.fakes.shells = append(f.shells, s)
	return s.now(), nil
}

func (f fake) Tagged(_ context.Context, tag string) (all []workspace.Shell, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shells {
		if is := s.now(); tag == "" || is.Tag == tag {
			all = append(all, is)
		}
	}
	return all, nil
}

// shell returns the program with an ID or tag.
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

func (f fake) ReadShell(ctx context.Context, read workspace.ShellRead) (workspace.ShellOutput, error) {
	s := f.shell(read.ID)
	log := s.out
	if read.Errors {
		log = s.errs
	}
	s.mu.Lock()
	s.is.AckedBytes = max(s.is.AckedBytes, read.Acked)
	s.mu.Unlock()
	long, cancel := context.WithTimeout(ctx, read.Wait)
	defer cancel()
	log.Wait(long, read.Cursor)
	if ctx.Err() != nil {
		return workspace.ShellOutput{}, context.Cause(ctx)
	}
	is := s.now()
	p := log.ReadRaw(read.Cursor, read.Chars)
	return workspace.ShellOutput{Shell: is, Data: p.Data, From: p.From, Next: p.Next, Dropped: p.Dropped, More: p.More}, nil
}

func (f fake) WriteShell(_ context.Context, id string, typed []byte) (workspace.Shell, error) {
	s := f.shell(id)
	if s.now().Exit != nil {
		return workspace.Shell{}, fault.Newf(fault.Precondition, "it has ended")
	}
	s.mu.Lock()
	s.typed += string(typed)
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) ResizeShell(_ context.Context, id string, cols, rows int) (workspace.Shell, error) {
	s := f.shell(id)
	s.mu.Lock()
	s.is.Cols, s.is.Rows = cols, rows
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) SignalShell(_ context.Context, id string, sig syscall.Signal) (workspace.Shell, error) {
	s := f.shell(id)
	if s.now().Exit != nil {
		return workspace.Shell{}, fault.Newf(fault.Precondition, "it has ended")
	}
	s.mu.Lock()
	s.signals = append(s.signals, sig)
	s.mu.Unlock()
	return s.now(), nil
}

func (f fake) KillShell(_ context.Context, id string) (workspace.Shell, error) {
	s := f.shell(id)
	s.end(program.Exit{Code: 137, Signal: 9})
	return s.now(), nil
}
