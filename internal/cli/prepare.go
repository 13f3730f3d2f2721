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
		Short: "Prepare an environment for fast starts",
		Long: `Prepare an environment, by default debian:12, so that its machines start in a fraction of a second.
pyro pulls the environment, makes the kernel and the template or image, and tests them with a
workspace. If everything is ready, pyro starts no machine.

With --force, pyro makes the template or image again. It fetches the environment and the kernel
again only if they are damaged. Running machines are not affected.

pyro doctor --environment ENV says if an environment is warm, cold or stale.`,
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
	f.BoolVar(&req.Network, "network", false, "prepare for machines with a network")
	f.BoolVar(&req.Force, "force", false, "make everything again")
	f.StringVar(&isolation, "isolation", "", "isolation `LEVEL` of the machines: auto, kvm, gvisor or tcg (default: $PYRO_ISOLATION, else auto)")
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
		fmt.Fprintln(os.Stderr, "pyro: note: the processor is emulated and at least ten times slower:", r.EmulatedReason)
	}
	return nil
}
