package oneshot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// timeoutGrace is how long the agent has, after the command's time limit, to kill the command and
// report its end. After this time, Run ends the machine.
const timeoutGrace = 5 * time.Second

// endPatience is how long to wait for the end of a machine after the connection to the machine has
// broken.
const endPatience = 15 * time.Second

var errTimeLimit = errors.New("the command reached its time limit")

// exec runs the command in a started machine. It returns when the machine ends, and at the latest
// timeoutGrace after the command's time limit.
func (r *run) exec(ctx context.Context, m *supervisor.Machine) (result Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Command.Timeout+timeoutGrace, errTimeLimit)
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
	refusals := m.Network().WatchRefusals()
	defer func() { result.RefusedCount, result.Refused = refusals.Stop() }()
	began := time.Now()
	exit, err := m.Agent.Exec(ctx, r.command(), r.Attach)
	if err != nil {
		result, err = interrupted(ctx, m, err)
		result.Duration = time.Since(began)
		return result, err
	}
	return Result{Exit: exit}, nil
}

// command returns the command with the variables, the user and the folder of the environment, and
// with the variables of the host's network settings. The command's own values take precedence.
func (r *run) command() program.Command {
	c := r.Command
	c.Env = slices.Concat(r.environment.Env, r.HostNetwork.Variables(), c.Env)
	c.User, c.Cwd = cmp.Or(c.User, r.environment.User), cmp.Or(c.Cwd, r.environment.WorkDir)
	return c
}

// interrupted returns the outcome of a command that did not run to its end. If a time limit or a
// lack of memory ended the command, that is a result. All other causes are errors.
func interrupted(ctx context.Context, m *supervisor.Machine, err error) (Result, error) {
	if fault.KindOf(err) == fault.Invalid { // the agent refused the command
		return Result{}, err
	}
	if ctx.Err() == nil { // the machine failed, and its connection breaks a moment before the machine ends
		select {
		case <-m.Done():
		case <-time.After(endPatience):
		}
	}
	switch ended := m.Err(); {
	case fault.KindOf(ended) == fault.Timeout:
		return Result{Exit: program.Exit{TimedOut: true}, Expired: true}, nil
	case errors.Is(ended, machine.ErrOutOfMemory):
		exit := program.Killed(syscall.SIGKILL)
		exit.OutOfMemory = true
		return Result{Exit: exit}, nil
	case ended != nil:
		return Result{}, ended
	case context.Cause(ctx) == errTimeLimit:
		return Result{Exit: program.Exit{TimedOut: true}}, nil
	}
	return Result{}, err
}
