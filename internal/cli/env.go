package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

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

// completeEnvironment completes the first argument with the names of environments.
func completeEnvironment(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := p.ListEnvironments(context.Background())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, e := range all {
		if strings.HasPrefix(e.Name, typed) {
			names = append(names, cobra.CompletionWithDesc(e.Name, e.Description))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
