package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

// suggest returns the completions of a typed prefix from a list.
func suggest[T any](typed string, list func(context.Context, *pyro.Pyro) ([]T, error), describe func(T) (name, description string)) ([]string, cobra.ShellCompDirective) {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer p.Close()
	all, err := list(context.Background(), p)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, v := range all {
		if name, description := describe(v); strings.HasPrefix(name, typed) {
			names = append(names, cobra.CompletionWithDesc(name, description))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeEnvironment completes the names of environments.
func completeEnvironment(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return suggest(typed, func(ctx context.Context, p *pyro.Pyro) ([]pyro.Environment, error) { return p.ListEnvironments(ctx) },
		func(e pyro.Environment) (string, string) { return e.Name, e.Description })
}

// completeWorkspace completes the IDs of workspaces.
func completeWorkspace(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return suggest(typed, func(ctx context.Context, p *pyro.Pyro) ([]pyro.WorkspaceSummary, error) { return p.ListWorkspaces(ctx) },
		func(w pyro.WorkspaceSummary) (string, string) {
			return w.WorkspaceID, strings.TrimSpace(w.Name + " " + string(w.State))
		})
}

// completeShell completes the IDs of the shells in a workspace.
func completeShell(id, typed string) ([]string, cobra.ShellCompDirective) {
	return suggest(typed, func(ctx context.Context, p *pyro.Pyro) ([]pyro.Shell, error) {
		all, err := p.ListShells(ctx, id)
		if err != nil {
			return nil, err
		}
		return all.Shells, nil
	}, func(s pyro.Shell) (string, string) { return s.ShellID, string(s.State) })
}

// completeService completes the names of the services in a workspace.
func completeService(id, typed string) ([]string, cobra.ShellCompDirective) {
	return suggest(typed, func(ctx context.Context, p *pyro.Pyro) ([]pyro.Service, error) {
		all, err := p.ListServices(ctx, id)
		if err != nil {
			return nil, err
		}
		return all.Services, nil
	}, func(s pyro.Service) (string, string) { return s.ServiceName, string(s.State) })
}

// completeFlag registers a list of words as the completions of a flag.
func completeFlag[T ~string](cmd *cobra.Command, flag string, words []T) {
	cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all := make([]string, 0, len(words))
		for _, w := range words {
			all = append(all, string(w))
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
}

// onPart returns a command that has two arguments: a workspace, and the name of an object in the
// workspace.
func onPart(use, short, long, example string, complete func(id, typed string) ([]string, cobra.ShellCompDirective), run func(cmd *cobra.Command, id, name string) error) *cobra.Command {
	cmd := onWorkspace(use, short, long, example, func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], args[1]) })
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return completeWorkspace(cmd, args, typed)
		}
		return complete(args[0], typed)
	}
	return cmd
}
