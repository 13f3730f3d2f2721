package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workspace",
		Short: "Work in persistent machines",
		Long: `A workspace is a machine that persists. It has a folder /workspace, a baseline (the files at its
creation), snapshots and a history of commands. A workspace keeps running when pyro ends. After
--ttl-seconds without use it stops; its files stay. Commands accept the name of a workspace instead
of its ID.

  pyro workspace create debian:12 --seed-path . --id-only   create a workspace from a folder
  pyro workspace exec ID -- python3 -m unittest             run a command in /workspace
  pyro workspace diff ID                                    show the changes since the creation
  pyro workspace summary ID                                 summarize the activity
  pyro workspace export ID /workspace/out --output ./out    copy files to this host
  pyro workspace reset ID                                   return to the baseline
  pyro workspace delete ID`,
		Aliases:                    []string{"ws"},
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       group,
	}
	cmd.AddCommand(
		newWorkspaceCreate(), newWorkspaceList(), newWorkspaceStatus(), newWorkspaceStats(), newWorkspaceUpdate(), newWorkspaceDelete(), newWorkspaceStart(), newWorkspaceStop(), newWorkspacePause(), newWorkspaceResume(),
		newWorkspaceExec(), newWorkspacePs(), newWorkspaceLogs(), newWorkspaceWait(), newWorkspaceKill(), newWorkspaceSummary(), newWorkspaceCopy(), newWorkspaceSync(), newWorkspaceFile(), newWorkspaceExport(), newWorkspacePatch(), newWorkspaceDiff(),
		newWorkspaceSnapshot(), newWorkspaceReset(), newWorkspaceFork(), newWorkspaceDisk(), newWorkspaceShell(), newWorkspaceService(), newWorkspaceNetwork(), newWorkspacePortForward(),
	)
	return cmd
}

// subgroup returns a command that has only subcommands.
func subgroup(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: subcommand, SuggestionsMinimumDistance: 2, RunE: group}
	cmd.AddCommand(commands...)
	return cmd
}

// onWorkspace returns a command whose first argument is the ID of a workspace.
func onWorkspace(use, short, long, example string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := command(use, short, long, example, run)
	cmd.ValidArgsFunction = completeWorkspace
	return cmd
}

// onEach returns a command whose arguments are IDs of workspaces. Its progress is the given phase.
// If the call fails for one workspace, the command continues with the next. For a single argument
// it prints the result with the function show. For several arguments it prints each result with the
// function done.
func onEach[T any](use, phase, short, long string, call func(context.Context, *pyro.Pyro, string) (T, error), show func(T) error, done func(T) error) *cobra.Command {
	cmd := onWorkspace(use, short, long, "", func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (T, error) {
				report(pyro.Progress{Phase: phase, Subject: args[0]})
				return call(ctx, p, args[0])
			}, show)
		}
		var failed error
		err := operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (map[string][]T, error) {
			all := []T{}
			for _, id := range args {
				report(pyro.Progress{Phase: phase, Subject: id})
				one, err := call(ctx, p, id)
				if ctx.Err() != nil {
					return nil, err
				}
				if err != nil {
					failed = cmp.Or(failed, err)
					printError(err.Error(), pyro.HintOf(err))
					continue
				}
				all = append(all, one)
			}
			return map[string][]T{"workspaces": all}, nil
		}, func(all map[string][]T) error {
			for _, one := range all["workspaces"] {
				if err := done(one); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && failed != nil {
			return exit{code: fault.ExitCode(failed)}
		}
		return err
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeWorkspace(cmd, nil, typed)
	}
	return cmd
}

// showState prints the state and ID of a workspace.
func showState(w *pyro.Workspace) error {
	_, err := fmt.Println(w.State, w.WorkspaceID)
	return err
}

// serviceCounts formats the numbers of running and ended services.
func serviceCounts(all, running int, state pyro.WorkspaceState) string {
	switch ended := all - running; {
	case state == pyro.StatePaused: // running services continue when the workspace resumes
		return fmt.Sprint(all)
	case running == 0:
		return fmt.Sprintf("%d ended", ended)
	case ended == 0:
		return fmt.Sprintf("%d run", running)
	default:
		return fmt.Sprintf("%d run, %d ended", running, ended)
	}
}

// showWorkspace prints a workspace as text.
func showWorkspace(w *pyro.Workspace) error {
	now := time.Now()
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name + ":", value})
		}
	}
	add("ID", w.WorkspaceID)
	add("Name", w.Name)
	add("Labels", labels(w.Labels))
	add("Environment", w.Environment)
	add("State", strings.TrimSuffix(string(w.State)+": "+w.StateReason, ": "))
	add("Workspace", w.WorkspacePath)
	add("Seed", seed(w.WorkspaceSeed))
	add("Git", quoted(w.WorkspaceSeed.GitMissing))
	add("Secrets", secretNames(w.Secrets))
	add("Execution mode", string(w.ExecutionMode)+", isolation "+string(w.Isolation))
	add("Not isolated", w.HostCompatReason)
	add("Emulated", w.EmulatedReason)
	add("Network", networkText(w))
	add("Resources", fmt.Sprintf("%d vCPU, %d MiB, /workspace %d MiB", w.VCPUCount, w.MemMiB, w.DiskMiB))
	add("At next start", strings.Join(w.AppliesAtNextStart, ", "))
	add("Commands", fmt.Sprint(w.CommandCount))
	if w.ServiceCount > 0 {
		add("Services", serviceCounts(w.ServiceCount, w.RunningCount, w.State))
	}
	add("Created", ago(now, w.CreatedAt))
	add("Last activity", ago(now, w.LastActivityAt))
	if w.ExpiresAt != nil {
		add("Stops", ahead(now, *w.ExpiresAt)+" if it is not used")
	}
	if w.LastResetAt != nil {
		add("Resets", fmt.Sprintf("%d, the last %s", w.ResetCount, ago(now, *w.LastResetAt)))
	}
	return table(os.Stdout, rows)
}

// networkText returns the network settings of a workspace as text.
func networkText(w *pyro.Workspace) string {
	text := string(w.NetworkPolicy)
	if n := w.Network; n != nil {
		text += ", address " + n.Address
		for _, part := range []struct{ name, value string }{
			{"allowed only ", strings.Join(n.EgressAllow, " ")}, {"denied ", strings.Join(n.EgressDeny, " ")}, {"published ", ports(n.PublishedPorts)},
		} {
			if part.value != "" {
				text += "; " + part.name + part.value
			}
		}
	}
	return text
}

func labels(all map[string]string) string {
	var text []string
	for key, value := range all {
		text = append(text, key+"="+value)
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

func seed(s pyro.WorkspaceSeed) string {
	if s.Mode == "empty" {
		return strings.TrimSuffix("empty, a fork of "+s.ForkedFrom, ", a fork of ")
	}
	text := fmt.Sprintf("%s %s: %s, %s", s.Mode, quoted(s.SeedPath), count(s.Files, "file"), size(s.Bytes))
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d devices, pipes and sockets left out", s.Skipped)
	}
	if s.Ignored > 0 {
		text += fmt.Sprintf(", %d ignored by git left out", s.Ignored)
	}
	if s.ForkedFrom != "" {
		text += ", a fork of " + s.ForkedFrom
	}
	return text
}

// warnIsolation prints a warning to standard error if a workspace is not isolated, and a note if
// its processor is emulated.
func warnIsolation(w *pyro.Workspace) {
	if w.ExecutionMode == pyro.HostCompat {
		fmt.Fprintln(os.Stderr, "pyro: warning: host_compat: nothing isolates this workspace from the host:", w.HostCompatReason)
	}
	if w.EmulatedReason != "" {
		fmt.Fprintln(os.Stderr, "pyro: note: the processor is emulated and at least ten times slower:", w.EmulatedReason)
	}
}
