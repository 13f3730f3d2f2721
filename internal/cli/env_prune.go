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
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove what is not needed any more",
		Long: `Remove what is not needed any more: images that no name stands for, templates and
kernels that have been superseded, and what interrupted work left. With --all, every
environment and template. What a running machine or a workspace uses stays in either case.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return envPrune(cmd.Context(), all, asJSON) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "also remove what is installed but not in use")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func envPrune(ctx context.Context, all, asJSON bool) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	pruned, err := p.PruneEnvironments(ctx, pyro.PruneEnvironmentsRequest{All: all})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(os.Stdout, pruned)
	}
	if len(pruned.Removed) == 0 {
		_, err = fmt.Println("nothing to remove")
		return err
	}
	for _, r := range pruned.Removed {
		if _, err := fmt.Printf("removed %s %s (%s)\n", r.Kind, cmp.Or(r.Name, r.Digest, "of interrupted work"), size(r.FreedBytes)); err != nil {
			return err
		}
	}
	_, err = fmt.Printf("freed %s\n", size(pruned.FreedBytes))
	return err
}
