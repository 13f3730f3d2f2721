package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Path is the folder in the machine that contains the files of the workspace.
const Path = "/workspace"

// timeoutGrace is how long the agent can take to kill a command after the command's time limit, and
// to answer. On a busy host, the thousands of processes of a fork bomb take more than 5 s.
const timeoutGrace = 30 * time.Second

var errNotEnded = fault.Newf(fault.Timeout, "the command could not be ended in time")

// Exec runs a command in a workspace until it ends, and adds it to the history. A paused workspace
// is resumed. If the command names no working directory, it runs in [Path].
//
// If ctx is cancelled or this process dies, the command and its descendants are killed. connected
// is called when the command is about to start; it can be nil. Exec also returns the workspace's
// specification.
func (m *Manager) Exec(ctx context.Context, kind store.Kind, id string, c program.Command, to program.Attach, connected func()) (Exit, store.Spec, error) {
	connection, w, err := m.connect(ctx, kind, id)
	if err != nil {
		return Exit{}, store.Spec{}, err
	}
	defer connection.Close()
	if connected != nil {
		connected()
	}
	if c, err = inWorkspace(w.Spec, c); err != nil {
		return Exit{}, w.Spec, err
	}
	exit, err := runBounded(ctx, connection, c, to)
	return exit, w.Spec, err
}

// runBounded runs a command until it ends. If the command has a time limit and can't be killed in
// time, it returns an error.
func runBounded(ctx context.Context, connection *remote.Client, c program.Command, to program.Attach) (Exit, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout+timeoutGrace, errNotEnded)
		defer cancel()
	}
	return connection.Exec(ctx, c, to)
}

// inWorkspace returns c with the environment variables, the user and the working directory of its
// workspace. The command's own values take precedence.
func inWorkspace(spec store.Spec, c program.Command) (program.Command, error) {
	c.Cwd = cmp.Or(c.Cwd, Path)
	return inEnvironment(spec, c), CheckUser(machine.Isolation(spec.Isolation), c.User)
}

// CheckUser returns an error if a command names a user, but runs on the host without isolation.
func CheckUser(isolation machine.Isolation, user string) error {
	if user == "" || isolation != machine.None {
		return nil
	}
	return fault.Newf(fault.Unsupported, "host_compat runs commands as your own user, not as %q", user).WithHint("use a machine: pyro doctor")
}

// inEnvironment returns c with the variables and the user of the environment, and with the host's
// network settings. The command's own values take precedence.
func inEnvironment(spec store.Spec, c program.Command) program.Command {
	c.Env = slices.Concat(spec.Env, spec.HostNetwork.Variables(), c.Env)
	for _, s := range spec.Secrets {
		if s.Always && !slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, s.Name+"=") }) {
			c.Secrets = append(c.Secrets[:len(c.Secrets):len(c.Secrets)], program.SecretEnv{Secret: s.Name, Env: s.Name})
		}
	}
	c.User = cmp.Or(c.User, spec.User)
	return c
}
