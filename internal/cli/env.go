package cli

import "github.com/spf13/cobra"

func newEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env",
		Short: "List, pull, inspect and prune environments",
		Long: `An environment is a named, immutable image that machines start from: one of the
catalogue, such as debian:12, which is built from Debian's packages, or any OCI image,
such as alpine:3.20 or registry.example:5000/name:tag. The first use of an environment
pulls it.`,
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       group,
	}
	cmd.AddCommand(newEnvList(), newEnvPull(), newEnvInspect(), newEnvPrune())
	return cmd
}
