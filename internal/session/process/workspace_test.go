package process

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// fakeShell implements Shell and Workspaces. Its program repeats its input, and ends with status 3
// when the input contains an "x".
type fakeShell struct {
	mu     sync.Mutex
	paused bool
	broken bool // the workspace can't be resumed
	refuse int  // number of writes that fail before one succeeds
	output []byte
	ended  bool
	closed bool
}

func (f *fakeShell) Start(context.Context, session.Spec) (Shell, error) { return f, nil }
func (f *fakeShell) End(context.Context, session.Spec) error            { return nil }
func (f *fakeShell) LineLimit(context.Context) (int, error)             { return program.LineLimit, nil }
func (f *fakeShell) PID() int                                           { return 7 }

func (f *fakeShell) Read(ctx context.Context, _ session.Stream, cursor int64) (Piece, error) {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		p, paused := Piece{Data: f.output[cursor:], Next: int64(len(f.output)), Ended: f.ended}, f.paused
		f.mu.Unlock()
		if paused {
			return Piece{}, ErrPaused
		}
		if p.Ended {
			status := unix.WaitStatus(3 << 8)
			p.Exit = &status
		}
		if p.Ended || len(p.Data) > 0 {
			return p, nil
		}
	}
	return Piece{}, context.Cause(ctx)
}

// do calls change, an operation that resumes the workspace.
func (f *fakeShell) do(change func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return fault.Newf(fault.Corrupt, "it can't be resumed")
	}
	f.paused = false
	return change()
}

func (f *fakeShell) Write(_ context.Context, b []byte) error {
	return f.do(func() error {
		if f.refuse > 0 {
			f.refuse--
			return fault.Newf(fault.Exhausted, "it does not read")
		}
		f.output = append(f.output, b...)
		f.ended = b[len(b)-1] == 'x'
		return nil
	})
}

func (f *fakeShell) Resize(context.Context, int, int) error { return f.do(func() error { return nil }) }
func (f *fakeShell) Signal(context.Context, unix.Signal) error {
	return f.do(func() error { return nil })
}
func (f *fakeShell) Kill(context.Context) error {
	return f.do(func() error { f.ended = true; return nil })
}
func (f *fakeShell) Close(context.Context) error {
	return f.do(func() error { f.closed = true; return nil })
}

func workspaceSpec() session.Spec {
	s := spec("command")
	s.Backend, s.WorkspaceID = session.Workspace, "workspace"
	return s
}

func startFake(t *testing.T, f *fakeShell) child {
	t.Helper()
	c, err := startInWorkspace(f, workspaceSpec())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInputResumesWorkspace types into a paused workspace. Its program does not read the input at
// first.
func TestInputResumesWorkspace(t *testing.T) {
	f := &fakeShell{paused: true, refuse: 3}
	c := startFake(t, f)
	if n, err := c.Write([]byte("typed x")); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if b, err := io.ReadAll(c.streams()[session.Output]); string(b) != "typed x" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if status, lost := c.wait(); status.ExitStatus() != 3 || lost {
		t.Errorf("%v, lost: %v", status, lost)
	}
	if c.kill(time.Second); !f.closed {
		t.Error("its shell still runs")
	}
}

// TestKillInWorkspace kills a program that ignores signals. In a second case the workspace can't
// be resumed.
func TestKillInWorkspace(t *testing.T) {
	for _, broken := range []bool{false, true} {
		f := &fakeShell{paused: true, broken: broken}
		c := startFake(t, f)
		go io.Copy(io.Discard, c.streams()[session.Output])
		c.kill(10 * time.Millisecond)
		if _, lost := c.wait(); lost != broken || f.closed == broken {
			t.Errorf("broken: %v; lost: %v, closed: %v", broken, lost, f.closed)
		}
		if _, err := c.Write([]byte("y")); broken && err == nil {
			t.Error("input after its end was accepted")
		}
	}
}

// TestLimitsInPausedWorkspace waits in a paused workspace for much longer than the limits of a
// session. The session does not end, and does not resume the workspace. The limits apply again when
// the workspace runs.
func TestLimitsInPausedWorkspace(t *testing.T) {
	for name, limit := range map[string]func(*session.Spec){
		"idle timeout":  func(s *session.Spec) { s.IdleTimeout = 3 * time.Second },
		"runtime limit": func(s *session.Spec) { s.RuntimeLimit = 3 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, f := workspaceSpec(), &fakeShell{paused: true}
				limit(&s)
				folder, err := session.Create(root, s)
				if err != nil {
					t.Fatal(err)
				}
				p := &sessionProcess{folder: folder, spec: s, ending: make(chan struct{}), ended: make(chan struct{})}
				if p.output, err = openOutput(folder, s, session.Size{Cols: s.Cols, Rows: s.Rows}); err != nil {
					t.Fatal(err)
				}
				defer p.output.close()
				p.program = startFake(t, f)
				p.in = newInput(p.program, 0)
				go p.live(t.Context())
				time.Sleep(time.Hour)
				synctest.Wait()
				select {
				case <-p.ended:
					t.Fatalf("the session ended: %+v", p.state)
				default:
				}
				if f.mu.Lock(); !f.paused {
					t.Error("the workspace was resumed")
				}
				f.mu.Unlock()
				if _, err := p.program.Write([]byte("y")); err != nil {
					t.Fatal(err)
				}
				resumed := time.Now()
				<-p.ended
				if p.state.Reason != session.TimedOut {
					t.Errorf("%+v", p.state)
				}
				if ran := time.Since(resumed); s.IdleTimeout > 0 && ran < s.IdleTimeout || ran > time.Minute {
					t.Errorf("it ended %s after the workspace was resumed", ran)
				}
			})
		})
	}
}
