package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/terminal"
)

const (
	maxShells        = 32      // shells on terminals, running or ended, that are not closed.
	maxBackground    = 64      // background programs, running or ended, that are not closed.
	maxTag           = 256     // bytes
	shellOutput      = 4 << 20 // bytes of output that are kept for a terminal.
	backgroundOutput = 1 << 20 // bytes of output that are kept for each stream of a background program.
	shellInput       = 1 << 20 // bytes of unread input
	hangUpGrace      = 500 * time.Millisecond
	killPatience     = 5 * time.Second // how long a killed program can take to end
	startPatience    = 30 * time.Second
)

// shell is a job without a caller. It is a program on a terminal, or a background program without a
// terminal. A background program with an entry in the history is a detached command. Readers read
// the output by offset.
type shell struct {
	job
	shellID string
	tag     string
	argv    []string // with secrets redacted
	cwd     string
	opened  time.Time
	log     *program.Log
	errs    *program.Log // nil if the program has a terminal
	input   bool         // whether the program accepts input
	in      inbox

	ready readiness

	history *history // nil if the history does not contain the program
	unused  func()   // ends the activity of a program with a history; nil if it does not run

	// Guarded by job.mu.
	asked      question
	switches   terminal.Switches
	cols, rows uint32
	consumed   int64 // bytes of output that the client has received
}

// openShell starts a shell. It returns when the program runs.
func (d *daemon) openShell(ctx context.Context, req *supervisorv1.OpenShellRequest) (*shell, error) {
	start := req.Start
	c, err := d.command(start)
	if err != nil {
		return nil, err
	}
	var id [6]byte
	rand.Read(id[:])
	s := &shell{
		shellID: "sh-" + hex.EncodeToString(id[:]), tag: req.Tag, argv: d.secrets.texts(start.Argv), cwd: start.Cwd,
		opened: time.Now(), input: start.Tty != nil || start.Stdin, cols: start.Tty.GetCols(), rows: start.Tty.GetRows(),
	}
	if req.Record {
		s.history = d.newHistory(start)
	}
	s.init(d, context.Background(), program.NewID())
	s.ready.init(req.Prompts)
	s.in.init()
	if start.Tty != nil {
		s.log = program.NewLog(shellOutput)
	} else {
		s.log, s.errs = program.NewLog(backgroundOutput), program.NewLog(backgroundOutput)
	}
	s.print(savedStreams{Stderr: new(position)})
	if err := d.shells.add(s, s.admit); err != nil {
		s.cancel(nil)
		return nil, err
	}
	s.ask()
	if s.history != nil {
		s.unused = d.activity.begin()
		go s.history.begin(context.WithoutCancel(ctx))
	}
	go s.run(c, nil)
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	select {
	case <-s.started:
	case <-s.done:
	case <-ctx.Done():
	}
	if s.hasStarted() {
		if err = s.recorded(); err == nil {
			return s, nil
		}
	}
	s.cancel(err)
	<-s.done
	d.shells.remove(s)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case s.err != nil:
		return nil, s.err
	}
	return nil, fault.Newf(fault.Precondition, "it can't be started: %s", s.exit.NotRun)
}

// run runs the program until it ends, or continues one from a checkpoint.
func (s *shell) run(c program.Command, from *program.Position) {
	finish := func() {
		s.in.close()
		s.ready.set()
		s.recordEnd()
		s.endLogs()
	}
	if s.input {
		s.job.run(c, from, typed{s}, finish)
	} else {
		s.job.run(c, from, nil, finish)
	}
}

// endLogs marks the logs as complete, for readers that wait.
func (s *shell) endLogs() {
	s.log.End()
	if s.inBackground() {
		s.errs.End()
	}
}

// print connects the program's outputs with the logs.
func (s *shell) print(from savedStreams) {
	if h := s.history; h != nil {
		s.stdout = s.daemon.newWriter(io.MultiWriter(s.log, &h.stdout), from.Stdout)
		s.stderr = s.daemon.newWriter(io.MultiWriter(s.errs, &h.stderr), *from.Stderr)
	} else if s.inBackground() {
		s.stdout, s.stderr = s.daemon.newWriter(s.log, from.Stdout), s.daemon.newWriter(s.errs, *from.Stderr)
	} else {
		s.stdout = s.daemon.newWriter(s, from.Stdout)
	}
}

// inBackground reports whether the program has no terminal.
func (s *shell) inBackground() bool { return s.errs != nil }

// isSuspended reports whether the shell continues under another supervisor.
func (s *shell) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.err, errSuspended)
}

// Write receives output of the terminal.
func (s *shell) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.switches.Write(b)
	s.mu.Unlock()
	s.ready.set()
	return s.log.Write(b)
}

// info describes the shell.
func (s *shell) info() *supervisorv1.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &supervisorv1.Shell{
		ShellId: s.shellID, Tag: s.tag, Pid: uint32(s.pid), Cwd: s.cwd, OpenedUnixNanos: s.opened.UnixNano(),
		OutputBytes: s.log.Len(), TakenBytes: s.consumed,
	}
	if s.history != nil {
		m.Sequence = int64(s.history.sequence())
	}
	if !s.inBackground() {
		m.Size = &programv1.Size{Cols: s.cols, Rows: s.rows}
	}
	if s.ended.IsZero() {
		return m
	}
	m.EndedUnixNanos = s.ended.UnixNano()
	if s.err != nil {
		m.Broken = s.daemon.secrets.Text(s.err.Error())
	} else {
		exit := s.exitRedacted()
		m.Exit = exit.Encode()
	}
	return m
}

// admit returns the list without the shell that the new shell replaces. It replaces an ended shell
// with the same tag. If the list is full, it replaces the oldest ended shell.
func (s *shell) admit(all []*shell) ([]*shell, error) {
	most, what := maxShells, "shells"
	if s.inBackground() {
		most, what = maxBackground, "programs in the background"
	}
	var kept []*shell
	like, oldest := 0, -1
	for _, one := range all {
		if s.tag != "" && one.tag == s.tag {
			if !one.hasEnded() {
				return nil, fault.Newf(fault.Exists, "a running program has the tag %q", fault.Printable(s.tag))
			}
			continue
		}
		if one.inBackground() == s.inBackground() {
			like++
			if oldest < 0 && one.hasEnded() {
				oldest = len(kept)
			}
		}
		kept = append(kept, one)
	}
	if like >= most {
		if oldest < 0 {
			return nil, fault.Newf(fault.Exhausted, "the workspace has %d %s, which is the maximum", most, what).WithHint("close one")
		}
		kept = slices.Delete(kept, oldest, oldest+1)
	}
	return kept, nil
}

func (d *daemon) findShell(id string) (*shell, error) {
	s, ok := d.shells.find(func(s *shell) bool { return s.shellID == id })
	if !ok {
		return nil, fault.New(fault.NotFound, "find shell", fault.Printable(id[:min(len(id), 80)]), "no open shell has this ID")
	}
	return s, nil
}

// hangUp ends the shell as if its terminal had been closed. If the shell does not end within
// hangUpGrace, it kills the shell.
func (s *shell) hangUp(ctx context.Context) {
	if !s.hasEnded() {
		ctx, cancel := context.WithTimeout(ctx, hangUpGrace)
		defer cancel()
		s.askToEnd(ctx, syscall.SIGHUP)
	}
	s.cancel(nil)
	<-s.done
}
