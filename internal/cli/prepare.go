package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newPrepare() *cobra.Command {
	var req pyro.PrepareEnvironmentRequest
	var isolation string
	cmd := &cobra.Command{
		Use:   "prepare [ENV]",
		Short: "Make ready all that the first start of a machine would make",
		Long: `Make ready what machines of an environment, debian:12 if none is named, start from: pull the
environment, make the guest kernel and the template or image for the isolation that this host
gives, and prove them by a workspace that is created, used, reset and deleted. From then on a
machine of the default size starts in a fraction of a second. Where all is there already nothing
is booted.

With --force it is made again: but for the environment and the guest kernel, which were fetched,
and are fetched again only where they are damaged. Machines that run go on.

pyro doctor --environment ENV tells whether an environment is warm, cold or stale.`,
		Example: `  pyro prepare
  pyro prepare debian:12-build --network
  pyro doctor --environment debian:12-build`,
		Args:              arguments,
		ValidArgsFunction: completeEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				req.Environment = args[0]
			}
			req.Isolation = pyro.Isolation(isolation)
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.PrepareResult, error) {
				req.Progress = report
				return p.PrepareEnvironment(ctx, req)
			}, printPrepared)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&req.Network, "network", false, "for machines with a network")
	f.BoolVar(&req.Force, "force", false, "make it again, though it is there")
	f.StringVar(&isolation, "isolation", "", "for machines behind `auto`, kvm, gvisor or tcg (default: $PYRO_ISOLATION, else auto)")
	jsonFlag(cmd)
	completeFlag(cmd, "isolation", pyro.Isolations)
	return cmd
}

func printPrepared(r *pyro.PrepareResult) error {
	network := "without a network"
	if r.Network {
		network = "with a network"
	}
	was := "it was warm already"
	if r.Made {
		was = fmt.Sprintf("it was %s, and was made again", r.Before)
		if r.Reason != "" {
			was = fmt.Sprintf("it was %s: %s", r.Before, r.Reason)
		}
	}
	rows := [][]string{
		{"Environment:", r.Environment}, {"Digest:", r.Digest}, {"Isolation:", string(r.Isolation)}, {"Machines:", network}, {"Status:", string(r.Status)}, {"Before:", was},
	}
	for _, s := range r.Steps {
		rows = append(rows, []string{s.Name + ":", fmt.Sprintf("%.2f s", s.MS/1000)})
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	if r.EmulatedReason != "" {
		fmt.Fprintln(os.Stderr, "pyro: note: the processor is emulated, ten times slower than it could be:", r.EmulatedReason)
	}
	return nil
}
