package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvPrune() *cobra.Command {
	var req pyro.PruneEnvironmentsRequest
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove unused data",
		Long: `Remove unused data: images without a name, outdated templates and kernels, and leftovers of
interrupted work. With --all, also remove installed environments and templates. pyro never removes
data that a running machine or a workspace uses.

--dry-run removes nothing. It prints what would be removed, and on standard error what would stay,
each with the reason.`,
		Example: `  pyro env prune --dry-run
  pyro env prune --all`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return envPrune(cmd, req) },
	}
	cmd.Flags().BoolVar(&req.All, "all", false, "also remove installed environments that are not in use")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "remove nothing, and print what would be removed")
	jsonFlag(cmd)
	return cmd
}

func envPrune(cmd *cobra.Command, req pyro.PruneEnvironmentsRequest) error {
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.PruneResult, error) {
		return p.PruneEnvironments(ctx, req)
	}, showPruned)
}

func showPruned(pruned *pyro.PruneResult) error {
	removed, freed := "removed", "freed"
	if pruned.DryRun {
		removed, freed = "would remove", "would free"
		for _, k := range pruned.Kept {
			fmt.Fprintf(os.Stderr, "keep %s %s (%s): %s\n", k.Kind, cmp.Or(k.Name, k.Digest), size(k.SizeBytes), k.Reason)
		}
	}
	if len(pruned.Removed) == 0 {
		_, err := fmt.Println("nothing to remove")
		return err
	}
	for _, r := range pruned.Removed {
		if _, err := fmt.Printf("%s %s %s (%s)\n", removed, r.Kind, cmp.Or(r.Name, r.Digest, "of interrupted work"), size(r.FreedBytes)); err != nil {
			return err
		}
	}
	_, err := fmt.Printf("%s %s\n", freed, size(pruned.FreedBytes))
	return err
}
