package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the catalogue and all that is installed",
		Args:  arguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return envList(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func envList(ctx context.Context, asJSON bool) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	all, err := p.ListEnvironments(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(os.Stdout, map[string]any{"environments": all})
	}
	rows := [][]string{{"NAME", "STATE", "SIZE", "DESCRIPTION"}}
	for _, e := range all {
		state, space := "available", "-"
		if e.Installed {
			state, space = "installed", size(e.SizeBytes)
		}
		rows = append(rows, []string{e.Name, state, space, e.Description})
	}
	return table(os.Stdout, rows)
}
