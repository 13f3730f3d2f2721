package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the catalogue and installed environments",
		Args:  arguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return envList(cmd) },
	}
	jsonFlag(cmd)
	return cmd
}

// environments is the JSON output of pyro env list.
type environments struct {
	Environments []pyro.Environment `json:"environments"`
}

func envList(cmd *cobra.Command) error {
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (environments, error) {
		all, err := p.ListEnvironments(ctx)
		return environments{all}, err
	}, showEnvironments)
}

func showEnvironments(all environments) error {
	now := time.Now()
	rows := [][]string{{"NAME", "STATE", "SIZE", "ORIGIN", "LAST USE", "DESCRIPTION"}}
	for _, e := range all.Environments {
		state, space := "available", "-"
		if e.Installed {
			state, space = "installed", size(e.SizeBytes)
		}
		rows = append(rows, []string{e.Name, state, space, e.Source, lastUse(now, e), e.Description})
	}
	return table(os.Stdout, rows)
}

// lastUse formats the time since the last use of an environment.
func lastUse(now time.Time, e pyro.Environment) string {
	if e.LastUsedAt.IsZero() {
		return "-"
	}
	return ago(now, e.LastUsedAt)
}
