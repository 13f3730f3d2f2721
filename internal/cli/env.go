package cli

import "github.com/spf13/cobra"

func newEnv() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Build, list, pull, push and prune environments",
		Long: `An environment is an immutable image for machines. pyro has a catalogue of environments, such as
debian:12, and builds them from Debian's packages. Every OCI image, such as alpine:3.20 or
registry.example:5000/name:tag, is an environment too. The first use of an environment installs it.
You can also build an environment from a Dockerfile, or make one from a workspace.`,
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       group,
	}
	cmd.AddCommand(newEnvList(), newEnvPull(), newEnvInspect(), newEnvPrune(), newEnvBuild(), newEnvCommit(), newEnvPush(), newEnvSave(), newEnvLoad())
	return cmd
}
