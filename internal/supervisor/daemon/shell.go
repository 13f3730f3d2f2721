package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/terminal"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

const (
	maxShells        = 32      // that are open, or have ended and were not closed
	maxBackground    = 64      // programs in the background, likewise
	maxTag           = 256     // bytes
	shellOutput      = 4 << 20 // bytes of each that are kept
	backgroundOutput = 1 << 20 // bytes of each output of a program in the background that are kept
	shellInput       = 1 << 20 // bytes that it need not have read
	hangUpGrace      = 500 * time.Millisecond
	killPatience     = 5 * time.Second // that the end of what was killed may take to show
	startPatience    = 30 * time.Second
)

// shells are those of the machine.
type shells struct {
	mu  sync.Mutex
	all []*shell // the oldest first
}

// shell is a program that nobody need be watching: on a terminal, or in the background.
type shell struct {
	of         *daemon
	id, execID string
	tag        string
	argv       []string // as it may be told
	cwd        string
	opened     time.Time
	log        *transcript.Log
	errs       *transcript.Log // nil where there is a terminal, on which all is one
	out        *outlet         // to log
	errOut     *outlet         // to errs
	in         inbox
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when the program has ended, or will not be seen to

	ready readiness

	mu         sync.Mutex
	asked      question
	switches   terminal.Switches
	cols, rows uint32
	pid        int
	taken      int64 // of its output, by whom that is for
	ended      time.Time
	exit       client.Exit
	err        error // why its end was not seen
}

// open starts one, and returns when its program runs.
func (all *shells) open(ctx context.Context, d *daemon, req *supervisorv1.OpenShellRequest) (*shell, error) {
	start := req.Start
	c, err := d.command(start)
	if err != nil {
		return nil, err
	}
	var id [6]byte
	rand.Read(id[:])
	s := &shell{
		of: d, id: "sh-" + hex.EncodeToString(id[:]), execID: client.NewID(), tag: req.Tag, argv: d.secrets.texts(start.Argv), cwd: start.Cwd, opened: time.Now(),
		cols: start.Tty.GetCols(), rows: start.Tty.GetRows(), done: make(chan struct{}),
	}
	s.ready.init(req.Prompts)
	if start.Tty != nil {
		s.log = transcript.New(shellOutput)
	} else {
		s.log, s.errs = transcript.New(backgroundOutput), transcript.New(backgroundOutput)
	}
	s.print(point{}, point{})
	s.in.init()
	var life context.Context
	life, s.cancel = context.WithCancelCause(context.Background())
	if err := all.add(s); err != nil {
		s.cancel(nil)
		return nil, err
	}
	s.ask()
	started := make(chan struct{})
	c.ID, c.Started = s.execID, func(pid int) {
		s.mu.Lock()
		s.pid = pid
		s.mu.Unlock()
		close(started)
	}
	go s.run(life, c)
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	select {
	case <-started:
		return s, nil
	case <-s.done:
	case <-ctx.Done():
	}
	s.cancel(nil)
	<-s.done
	all.forget(s)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case s.err != nil:
		return nil, s.err
	}
	return nil, fault.Newf(fault.Precondition, "it can't be started: %s", s.exit.Message)
}

// run runs the program to its end.
func (s *shell) run(ctx context.Context, c client.Command) {
	defer close(s.done)
	var in, errs = io.Reader(typed{s}), io.Discard
	if s.inBackground() {
		in, errs = nil, s.errOut
	}
	exit, err := s.of.machine.Agent.Exec(ctx, c, in, s.out, errs)
	switch {
	case s.of.hasLeft(err):
		err = errLeft
	case err != nil && ctx.Err() == nil:
		exit, err = s.of.broken(ctx, err)
	}
	s.out.Close()
	if s.inBackground() {
		s.errOut.Close()
	}
	s.in.close()
	s.ready.set()
	s.mu.Lock()
	s.ended, s.exit, s.err = time.Now(), exit, err
	s.mu.Unlock()
	s.endLogs()
	s.cancel(nil)
}

func (s *shell) endLogs() {
	s.log.End()
	if s.inBackground() {
		s.errs.End()
	}
}

// print has what it prints go to its logs.
func (s *shell) print(out, errs point) {
	if s.inBackground() {
		s.out, s.errOut = s.of.outlet(s.log, out), s.of.outlet(s.errs, errs)
	} else {
		s.out = s.of.outlet(s, out)
	}
}

// inBackground tells whether it has no terminal.
func (s *shell) inBackground() bool { return s.errs != nil }

// hasLeft tells whether it goes on without this supervisor.
func (s *shell) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.err, errLeft)
}

// Write takes what it prints.
func (s *shell) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.switches.Write(b)
	s.mu.Unlock()
	s.ready.set()
	return s.log.Write(b)
}

// info describes it.
func (s *shell) info() *supervisorv1.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &supervisorv1.Shell{
		ShellId: s.id, Tag: s.tag, Pid: uint32(s.pid), Cwd: s.cwd, OpenedUnixNanos: s.opened.UnixNano(), OutputBytes: s.log.Len(), TakenBytes: s.taken,
	}
	if !s.inBackground() {
		m.Size = &supervisorv1.Size{Cols: s.cols, Rows: s.rows}
	}
	if s.ended.IsZero() {
		return m
	}
	m.EndedUnixNanos = s.ended.UnixNano()
	if s.err != nil {
		m.Broken = s.of.secrets.Text(s.err.Error())
	} else {
		m.Exit = s.of.exitOf(s.exit)
	}
	return m
}

// add adds a shell: in the place of the one that had its tag and has ended, or of the oldest that has ended where there are as many as there can be.
func (all *shells) add(s *shell) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	most, what := maxShells, "shells"
	if s.inBackground() {
		most, what = maxBackground, "programs in the background"
	}
	var kept []*shell
	like, oldest := 0, -1
	for _, one := range all.all {
		if s.tag != "" && one.tag == s.tag {
			if !one.hasEnded() {
				return fault.Newf(fault.Exists, "one that runs has the tag %q", fault.Printable(s.tag))
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
			return fault.Newf(fault.Exhausted, "the workspace has %d %s, which is the most that it can have", most, what).WithHint("close one")
		}
		kept = slices.Delete(kept, oldest, oldest+1)
	}
	all.all = append(kept, s)
	return nil
}

func (s *shell) hasEnded() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (all *shells) forget(s *shell) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for i, one := range all.all {
		if one == s {
			all.all = append(all.all[:i:i], all.all[i+1:]...)
			return
		}
	}
}

func (all *shells) list() []*shell {
	all.mu.Lock()
	defer all.mu.Unlock()
	return append([]*shell(nil), all.all...)
}

func (all *shells) find(id string) (*shell, error) {
	for _, s := range all.list() {
		if s.id == id {
			return s, nil
		}
	}
	return nil, fault.New(fault.NotFound, "find shell", fault.Printable(id[:min(len(id), 80)]), "there is none of this id, or it was closed")
}

// hangUp ends a shell as a terminal that goes away does, and kills what does not mind.
func (s *shell) hangUp(ctx context.Context) {
	if !s.hasEnded() {
		quick, cancel := context.WithTimeout(ctx, hangUpGrace)
		defer cancel()
		if s.of.machine.Agent.Signal(quick, s.execID, syscall.SIGHUP) == nil {
			select {
			case <-s.done:
			case <-quick.Done():
			}
		}
	}
	s.cancel(nil)
	<-s.done
}

// kill kills all that a shell has started, and returns when its program is seen to have ended.
func (s *shell) kill(ctx context.Context) error {
	if s.hasEnded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	if err := s.of.machine.Agent.Kill(ctx, s.execID); err != nil && !s.hasEnded() {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancel gives up on all of them, because their machine ends or goes on elsewhere.
func (all *shells) cancel() {
	for _, s := range all.list() {
		why := errMachine
		if s.of.left.Load() {
			why = errLeft
		}
		s.cancel(why)
	}
}

// await waits until all shells are seen to have ended.
func (all *shells) await() {
	for _, s := range all.list() {
		<-s.done
	}
}
