package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "inspect ENV",
		Short:             "Describe one environment",
		Args:              arguments,
		ValidArgsFunction: completeEnvironment,
		RunE:              func(cmd *cobra.Command, args []string) error { return envInspect(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func envInspect(ctx context.Context, name string, asJSON bool) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	e, err := p.InspectEnvironment(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(os.Stdout, e)
	}
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
		add("Digest", e.Digest)
		add("Manifest", e.ManifestDigest)
	}
	add("Packages", strings.Join(e.Packages, ", "))
	add("Variables", strings.Join(e.Env, " "))
	add("User", e.User)
	add("Folder", e.WorkDir)
	return table(os.Stdout, rows)
}
