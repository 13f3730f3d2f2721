package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newEnvInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "inspect ENV",
		Short:             "Describe one environment",
		Args:              arguments,
		ValidArgsFunction: completeEnvironment,
		RunE:              func(cmd *cobra.Command, args []string) error { return envInspect(cmd, args[0]) },
	}
	jsonFlag(cmd)
	return cmd
}

func envInspect(cmd *cobra.Command, name string) error {
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Environment, error) {
		return p.InspectEnvironment(ctx, name)
	}, showEnvironment)
}

func showEnvironment(e *pyro.Environment) error {
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name + ":", value})
		}
	}
	add("Name", e.Name)
	add("Description", e.Description)
	add("Source", e.Source)
	if !e.Installed {
		add("State", "available: its first use installs it")
	} else {
		add("State", "installed "+e.InstalledAt.Local().Format(time.DateTime))
		add("Size", size(e.SizeBytes)+" on disk, "+size(e.VirtualSize)+" for a machine")
		add("Last use", lastUse(time.Now(), *e))
		add("Digest", e.Digest)
		add("Manifest", e.ManifestDigest)
	}
	add("Packages", strings.Join(e.Packages, ", "))
	add("Variables", strings.Join(e.Env, " "))
	add("User", e.User)
	add("Folder", e.WorkDir)
	add("Entry point", fault.CommandLine(e.Entrypoint))
	add("Command", fault.CommandLine(e.Cmd))
	return table(os.Stdout, rows)
}
