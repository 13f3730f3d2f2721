package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvPull() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "pull ENV",
		Short: "Install or check an environment",
		Long: `Install an environment. If it is in the catalogue, pyro builds it from Debian's packages, which it
downloads from the mirrors of this host's apt configuration. If it is an OCI image, pyro pulls it
from its registry. If the environment is already installed, pyro checks it, and replaces it if it is
damaged.`,
		Example: `  pyro env pull debian:12
  pyro env pull alpine:3.20
  pyro env pull --force debian:12-build`,
		Args:              arguments,
		ValidArgsFunction: completeEnvironment,
		RunE:              func(cmd *cobra.Command, args []string) error { return envPull(cmd, args[0], force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "make it again, with current packages or the current image of the tag")
	jsonFlag(cmd)
	return cmd
}

func envPull(cmd *cobra.Command, name string, force bool) error {
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Environment, error) {
		return p.PullEnvironment(ctx, pyro.PullEnvironmentRequest{Environment: name, Force: force, Progress: report})
	}, showInstalled)
}

func showInstalled(e *pyro.Environment) error {
	_, err := fmt.Printf("%s is installed: %s, %s\n", e.Name, size(e.SizeBytes), e.Digest)
	return err
}
