package pyro

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// timeoutGrace is what the agent has, over the command's time limit, to kill the command and say so. Then the machine is ended from outside.
const timeoutGrace = 5 * time.Second

// endPatience is how long the end of a machine may take after its link has broken, until the broken link is taken for all there is to tell.
const endPatience = 2 * time.Second

var errTimeLimit = errors.New("the time limit of the command is over")

// RunInVM starts a machine, runs one command in it and removes the machine, whatever happens. A command that fails is a result and no error: an error says
// that pyro could not run it, or not to its end. Its kind is Invalid or NotFound where the request asks for what can't be, Unavailable where no machine can
// be started or one has broken down, and Canceled where ctx or a signal ended the run.
func (p *Pyro) RunInVM(ctx context.Context, req RunInVMRequest) (*RunResult, error) {
	r := run{pyro: p, req: req, began: time.Now()}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.do(ctx, passSignals(ctx, cancel, req.Signals)); err != nil {
		return nil, because(ctx, err)
	}
	r.result.TotalMS = ms(time.Since(r.began))
	return &r.result, nil
}

// run is one call of RunInVM.
type run struct {
	pyro   *Pyro
	req    RunInVMRequest
	began  time.Time
	result RunResult
}

func (r *run) do(ctx context.Context, signals *signalPasser) error {
	if err := r.req.complete(); err != nil {
		return err
	}
	if err := r.pyro.known(ctx, r.req.Environment); err != nil {
		return err
	}
	driver, err := r.choose(ctx)
	if err != nil {
		return err
	}
	cfg := supervisor.Config{
		Dirs: r.pyro.dirs, Driver: driver, VCPUs: r.req.VCPUCount, MemMiB: r.req.MemMiB,
		TTL: time.Duration(r.req.TTLSeconds) * time.Second, Progress: r.req.Progress.about(r.req.Environment),
	}
	if cfg.Network, err = networkFor(driver, &r.req); err != nil {
		return err
	}
	var own environment.Environment
	if r.result.ExecutionMode == Guest {
		lease, err := r.open(ctx)
		if err != nil {
			return err
		}
		defer lease.Close()
		own = lease.Environment
		cfg.Root = machine.Root{Digest: own.Digest, Image: lease.Image}
	}
	m, err := supervisor.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	r.phases(m.Phases())
	if err := m.Limits(); err != nil && r.result.ExecutionMode == Guest {
		r.result.UnlimitedReason = err.Error()
	}
	swept := r.pyro.sweep()
	defer func() { <-swept }()

	if r.req.OnStart != nil {
		r.req.OnStart(r.result.RunStart)
	}
	r.result.StartMS = ms(time.Since(r.began))
	return r.exec(ctx, m, own, signals)
}

// choose picks the driver, and notes what it stands for.
func (r *run) choose(ctx context.Context) (machine.Driver, error) {
	began := time.Now()
	drivers, err := r.pyro.drivers()
	if err != nil {
		return nil, err
	}
	driver, reason, err := drivers.Choose(ctx, machine.Isolation(r.req.Isolation), r.req.AllowHostCompat, r.req.Progress.adapt())
	if err != nil {
		return nil, err
	}
	r.result.Environment = r.req.Environment
	r.result.Isolation, r.result.ExecutionMode = Isolation(driver.Isolation()), Guest
	switch {
	case reason != nil && r.result.Isolation == IsolationNone:
		r.result.ExecutionMode, r.result.HostCompatReason = HostCompat, reason.Error()
	case reason != nil:
		r.result.EmulatedReason = reason.Error()
	}
	r.phases([]machine.Phase{{Name: "choose", Duration: time.Since(began)}})
	return driver, nil
}

// open takes the environment in use, and pulls it where it is not there.
func (r *run) open(ctx context.Context) (*environment.Lease, error) {
	began := time.Now()
	lease, err := r.pyro.store.Use(ctx, r.req.Environment, r.req.Progress.adapt())
	if err != nil {
		return nil, err
	}
	r.phases([]machine.Phase{{Name: "environment", Duration: time.Since(began)}})
	return lease, nil
}

func (r *run) phases(phases []machine.Phase) {
	for _, p := range phases {
		r.result.Timings = append(r.result.Timings, Phase{p.Name, ms(p.Duration)})
	}
}

// exec runs the command in a started machine. It does not outlive the machine, and not its time limit by more than timeoutGrace.
func (r *run) exec(ctx context.Context, m *supervisor.Machine, own environment.Environment, signals *signalPasser) error {
	limit := time.Duration(r.req.TimeoutSeconds) * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit+timeoutGrace, errTimeLimit)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-m.Done():
			stop(m.Err())
		case <-ctx.Done():
		}
	}()

	command := r.command(own, limit)
	signals.started(func(sig syscall.Signal) {
		untilStarted(ctx, func() error { return m.Agent.Signal(ctx, command.ID, sig) })
	})
	if r.req.TTY != nil {
		go followSize(ctx, r.req.TTY.Resize, func(ctx context.Context, cols, rows int) error { return m.Agent.Resize(ctx, command.ID, cols, rows) })
	}
	var stdout, stderr capture
	out, errs := sink{to: or(r.req.Stdout, &stdout)}, sink{to: or(r.req.Stderr, &stderr)}
	began := time.Now()
	end, err := m.Agent.Exec(ctx, command, r.req.Stdin, &out, &errs)
	r.result.Stdout, r.result.StdoutEncoding = stdout.text()
	r.result.Stderr, r.result.StderrEncoding = stderr.text()
	r.result.StdoutTruncated, r.result.StderrTruncated = stdout.truncated, stderr.truncated
	if err != nil {
		r.result.DurationMS = ms(time.Since(began))
		if err := errors.Join(out.err, errs.err); err != nil {
			return fault.Wrap(err, "pass on the output", "")
		}
		return r.cutShort(ctx, m, err)
	}
	r.ended(end)
	return nil
}

// command is what the agent is asked to run.
func (r *run) command(own environment.Environment, limit time.Duration) client.Command {
	c := client.Command{ID: client.NewID(), Argv: r.req.Argv, Env: slices.Clone(own.Env), User: own.User, Cwd: own.WorkDir, Timeout: limit}
	if t := r.req.TTY; t != nil {
		c.TTY = &client.Terminal{Cols: t.Size.Cols, Rows: t.Size.Rows, Term: t.Term}
	}
	for _, name := range slices.Sorted(maps.Keys(r.req.Env)) {
		c.Env = append(c.Env, name+"="+r.req.Env[name])
	}
	return c
}

// untilStarted repeats a call about a command for as long as the agent does not know the command: it is about to start, or ctx ends with it.
func untilStarted(ctx context.Context, call func() error) {
	for fault.KindOf(call()) == NotFound {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// followSize hands every change of a terminal's size on.
func followSize(ctx context.Context, sizes <-chan WindowSize, resize func(ctx context.Context, cols, rows int) error) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if size.valid() {
				untilStarted(ctx, func() error { return resize(ctx, size.Cols, size.Rows) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// ended notes how the command ended.
func (r *run) ended(end client.Exit) {
	r.result.ExitCode, r.result.Signal = end.Code, end.Signal
	r.result.DurationMS = ms(end.Duration)
	r.result.NotRun = end.Message
	r.result.OutOfMemory, r.result.OutputHeld = end.OutOfMemory, end.OutputHeld
	if end.TimedOut {
		r.timedOut("timeout_seconds")
	}
}

func (r *run) timedOut(limit string) {
	r.result.ExitCode, r.result.TimedOut, r.result.TimeLimit = fault.ExitTimeout, true, limit
}

// cutShort tells why an exec did not come to its end. A time limit is a result all the same.
func (r *run) cutShort(ctx context.Context, m *supervisor.Machine, err error) error {
	if ctx.Err() == nil { // it was the machine, then, whose link breaks a moment before it has ended
		select {
		case <-m.Done():
		case <-time.After(endPatience):
		}
	}
	if ended := m.Err(); fault.KindOf(ended) == fault.Timeout {
		r.timedOut("ttl_seconds")
		return nil
	} else if errors.Is(ended, machine.ErrOutOfMemory) {
		r.result.OutOfMemory = true
		r.result.Signal, r.result.ExitCode = int(syscall.SIGKILL), 128+int(syscall.SIGKILL)
		return nil
	} else if ended != nil {
		return ended
	}
	if context.Cause(ctx) == errTimeLimit {
		r.timedOut("timeout_seconds")
		return nil
	}
	return err
}

// because gives the reason for which ctx was cancelled, where it was, which tells more than what failed for it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if fault.KindOf(cause) == fault.Internal { // a cause without a kind, from the caller
			return &fault.Error{Kind: Canceled, Err: cause}
		}
		return cause
	}
	return err
}

// sink keeps the error of a writer, which the caller knows better than any that follows from it.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	if err != nil {
		s.err = err
	}
	return n, err
}

func or(w io.Writer, otherwise io.Writer) io.Writer {
	if w != nil {
		return w
	}
	return otherwise
}

// sweep tidies, while a command runs, what runs that were killed left behind. That it could not is told by the commands that are there for it, Doctor and
// PruneEnvironments.
func (p *Pyro) sweep() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		supervisor.Sweep(p.dirs)
	}()
	return done
}
