package cli

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/hostagent"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/operations"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// hostAgent contains the flags of commands that run the host agent in their process.
type hostAgent struct {
	environment, network, logLevel string
	limits                         hostagent.Limits
	isolation                      pyro.Isolation // set by check
	log                            *slog.Logger   // likewise
}

func (h *hostAgent) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&h.environment, "environment", hostagent.DefaultEnvironment, "`ENVIRONMENT` of the template minimal")
	f.StringVar(&h.network, "network-policy", string(pyro.NetworkEgress), "network `POLICY` of sandboxes: off or egress")
	completeFlag(cmd, "network-policy", []string{string(pyro.NetworkOff), string(pyro.NetworkEgress)})
	f.StringVar(&h.logLevel, "log-level", "info", "`LEVEL` of the log on stderr: debug, info, warn or error")
	completeFlag(cmd, "log-level", []string{"debug", "info", "warn", "error"})
}

// check checks the flags and PYRO_ISOLATION.
func (h *hostAgent) check(cmd *cobra.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(h.logLevel)); err != nil {
		return usage(cmd, "--log-level is %q: it must be debug, info, warn or error", h.logLevel)
	}
	if !slices.Contains([]string{string(pyro.NetworkOff), string(pyro.NetworkEgress)}, h.network) {
		return usage(cmd, "--network-policy is %q: it must be off or egress", h.network)
	}
	h.isolation = pyro.Isolation(cmp.Or(os.Getenv("PYRO_ISOLATION"), string(pyro.IsolationAuto)))
	if !slices.Contains(pyro.Isolations, h.isolation) {
		return usage(cmd, "PYRO_ISOLATION is %q, which is not an isolation level", h.isolation)
	}
	h.log = slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// tracesTimeout bounds how long the end of the program waits for a collector of traces.
const tracesTimeout = 3 * time.Second

// open opens the host agent, and begins to send traces if the environment names a collector. The
// caller must call end.
func (h *hostAgent) open(ctx context.Context, d dirs.Dirs) (agent *hostagent.Agent, end func(), err error) {
	p, err := pyro.New(pyro.Options{CacheDir: d.Cache, StateDir: d.State})
	if err != nil {
		return nil, nil, err
	}
	traces, err := tracing.Start(ctx, func(err error) { h.log.Warn("send traces", "error", err) })
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	stopTraces := func() {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracesTimeout)
		defer cancel()
		if err := traces(patient); err != nil {
			h.log.Warn("send the last traces", "error", err)
		}
	}
	h.limits.Folder = d.Host()
	workspaces, closeWorkspaces := hostagent.OpenWorkspaces(d, machine.Isolation(h.isolation), h.network)
	release := func() {
		p.Close()
		closeWorkspaces()
		stopTraces()
	}
	agent, err = hostagent.Open(ctx, hostagent.Options{
		Folder: d.Host(), Machines: workspaces, Limits: h.limits, Environment: h.environment, Operations: operations.RemoteOperations(p), Log: h.log,
	})
	if err != nil {
		release()
		return nil, nil, err
	}
	return agent, func() {
		agent.Close()
		release()
	}, nil
}
