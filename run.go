package pyro

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/oneshot"
	"github.com/pyro-mcp/pyro/internal/program"
)

// RunInVM starts a machine, runs one command in it and removes the machine. A command that fails is
// a result, not an error. An impossible request fails with kind Invalid or NotFound. If no machine
// can be started, or the machine fails, the error has the kind Unavailable. If ctx is canceled or a
// signal ends the run, the error has the kind Canceled.
func (p *Pyro) RunInVM(ctx context.Context, req RunInVMRequest) (*RunResult, error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := forwardSignals(ctx, cancel, req.Signals)
	if err := req.complete(); err != nil {
		return nil, causeOf(ctx, err)
	}
	if err := p.known(ctx, req.Environment); err != nil {
		return nil, causeOf(ctx, err)
	}
	if err := p.checkCommand(ctx, req); err != nil {
		return nil, causeOf(ctx, err)
	}
	request, err := req.network()
	if err != nil {
		return nil, err
	}
	network, err := request.plan()
	if err != nil {
		return nil, err
	}
	env := append(program.Environ(req.Env), network.credentials.Env()...)
	r := &RunResult{Environment: req.Environment}
	stdout, stderr := newOutput(req.Stdout, req.StreamOnly), newOutput(req.Stderr, req.StreamOnly)
	stdout.failed, stderr.failed = cancel, cancel
	end, err := oneshot.Run(ctx, p.workspaces, oneshot.Request{
		Environment: req.Environment, Isolation: machine.Isolation(req.Isolation), AllowHost: req.AllowHostCompat,
		VCPUs: req.VCPUCount, MemMiB: req.MemMiB, TTL: time.Duration(req.TTLSeconds) * time.Second,
		Network: network.policy != NetworkOff, Egress: network.egress, HostNetwork: network.host,
		Command: program.Command{
			Argv: req.Argv, Env: env, User: req.User, Cwd: req.Cwd, Timeout: time.Duration(req.TimeoutSeconds) * time.Second, TTY: req.TTY.terminal(),
		},
		Attach:   program.Attach{Stdin: req.Stdin, Stdout: stdout, Stderr: stderr, Started: attached(ctx, signals, req.TTY)},
		Progress: req.Progress.adapt(),
		Starting: func(s oneshot.Start) {
			r.RunStart, r.Timings = newRunStart(s), phasesOf(s.Phases)
			if req.OnStart != nil {
				req.OnStart(r.RunStart)
			}
			r.StartMS = ms(time.Since(began))
			signals.starting()
		},
	})
	if err := writeError(stdout, stderr); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r.ended(end.Exit)
	r.printed(stdout, stderr)
	r.refused(end.RefusedCount, end.Refused)
	switch {
	case end.Expired:
		r.TimeLimit = "ttl_seconds"
	case end.TimedOut:
		r.TimeLimit = "timeout_seconds"
	}
	r.TotalMS = ms(time.Since(began))
	return r, nil
}

// checkCommand returns an error if neither the request nor the environment has a command. If the
// environment is not installed, only its pull can tell.
func (p *Pyro) checkCommand(ctx context.Context, req RunInVMRequest) error {
	if len(req.Argv) > 0 {
		return nil
	}
	found, err := p.workspaces.Environments.Inspect(ctx, req.Environment)
	if errors.Is(err, environment.ErrNotInstalled) {
		return nil
	}
	if err == nil {
		_, err = found.Command()
	}
	return err
}

func newRunStart(s oneshot.Start) RunStart {
	r := RunStart{Isolation: Isolation(s.Isolation), ExecutionMode: Guest}
	switch {
	case s.OnHost:
		r.ExecutionMode, r.HostCompatReason = HostCompat, s.Fallback.Error()
	case s.Fallback != nil:
		r.EmulatedReason = s.Fallback.Error()
	}
	if s.Unlimited != nil {
		r.UnlimitedReason = s.Unlimited.Error()
	}
	return r
}

// attached returns the function to call when the command has started. From then on, the command
// receives the caller's signals and window sizes.
func attached(ctx context.Context, signals *signalForwarder, tty *TTY) func(program.Process) {
	return func(p program.Process) {
		signals.started(func(sig syscall.Signal) { p.Signal(ctx, sig) }) // the error is ignored: if the command has ended, its exit status says so
		if tty != nil {
			go followSize(ctx, tty.Resize, p.Resize)
		}
	}
}

// followSize calls the function resize for each new size of a terminal, until ctx ends or the
// channel sizes is closed.
func followSize(ctx context.Context, sizes <-chan WindowSize, resize func(ctx context.Context, cols, rows int) error) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if size.valid() {
				resize(ctx, size.Cols, size.Rows) // the error is ignored: if the command has ended, its exit status says so
			}
		case <-ctx.Done():
			return
		}
	}
}

// causeOf returns the cause of ctx if ctx has ended, and err otherwise. After a cancellation, the
// cause is more informative than err. If the cause has no kind, it gets the kind Canceled.
func causeOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	kind := fault.KindOf(cause)
	if kind == fault.Internal {
		kind = Canceled
	}
	return &fault.Error{Kind: kind, Err: cause}
}
