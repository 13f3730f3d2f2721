package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newEnvPull() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "pull ENV",
		Short: "Install an environment, or check an installed one",
		Long: `Install an environment: build one of the catalogue from Debian's packages, by the mirrors
that this host is configured to use, or pull an OCI image from its registry. An installed one
is checked, and made again where it is damaged.`,
		Example: `  pyro env pull debian:12
  pyro env pull alpine:3.20
  pyro env pull --force debian:12-build`,
		Args:              arguments,
		ValidArgsFunction: completeEnvironment,
		RunE:              func(cmd *cobra.Command, args []string) error { return envPull(cmd.Context(), args[0], force, asJSON) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "make it anew, with today's packages or the tag's present image")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func envPull(ctx context.Context, name string, force, asJSON bool) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	progress := newProgress(false)
	defer progress.stop()
	e, err := p.PullEnvironment(ctx, pyro.PullEnvironmentRequest{Environment: name, Force: force, Progress: progress.report})
	progress.stop()
	if err != nil {
		return signals.explain(err)
	}
	if asJSON {
		return printJSON(os.Stdout, e)
	}
	_, err = fmt.Printf("%s is installed: %s, %s\n", e.Name, size(e.SizeBytes), e.Digest)
	return err
}
