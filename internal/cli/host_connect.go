package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/agenthost"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newHostConnect() *cobra.Command {
	names := hostsThat(agenthost.Host.Connectable)
	return hostChange("connect", "Add pyro to the configuration of a program that runs agents", `Add pyro to the configuration of HOST, with HOST's own command. HOST is one of `+strings.Join(names, ", ")+`.
The entry has the absolute path of this pyro. It also has these variables, if they are set:
PYRO_STATE_DIR, PYRO_CACHE_DIR, PYRO_ISOLATION, PYRO_RUNSC, XDG_STATE_HOME and XDG_CACHE_HOME.

If HOST already has an equal entry, nothing changes. If HOST has a different entry, the command
fails; "pyro host repair" replaces the entry. For other programs, use "pyro host print-config".`, `  pyro host connect claude-code
  pyro host connect codex --profile workspace-full`, names, agenthost.Host.Connect)
}

func newHostRepair() *cobra.Command {
	names := hostsThat(agenthost.Host.Repairable)
	return hostChange("repair", "Repair how a program starts pyro", `Replace HOST's entry for pyro with the entry that "pyro host connect" writes with these flags. HOST
is one of `+strings.Join(names, ", ")+`. pyro uses HOST's own command.

For opencode, pyro edits the configuration file. It changes only this entry, and makes a backup
beside the file. If the file has comments, pyro does not change the file and prints the necessary
entry.`, `  pyro host repair claude-code
  pyro host repair opencode --profile workspace-full`, names, agenthost.Host.Repair)
}

// hostsThat returns the names of the hosts that the predicate selects.
func hostsThat(can func(agenthost.Host) bool) []string {
	return agenthost.Names(slices.DeleteFunc(slices.Clone(agenthost.Hosts), func(h agenthost.Host) bool { return !can(h) })...)
}

// hostChange returns a command that changes the configuration of a host.
func hostChange(verb, short, long, example string, names []string, change agenthost.Change) *cobra.Command {
	var s hostServer
	var scope string
	cmd := &cobra.Command{
		Use: verb + " HOST", Short: short, Long: long, Example: example, Args: arguments, ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := agenthost.Find(args[0])
			if err != nil {
				return err
			}
			server, err := s.server(cmd)
			if err != nil {
				return err
			}
			home, err := presentHome()
			if err != nil {
				return err
			}
			ctx, signals := endOnSignals(cmd.Context())
			defer signals.stop()
			out, err := change(h, ctx, home, server, scope)
			if fault.KindOf(err) == fault.Exists {
				err = &fault.Error{Err: err, Hint: "pyro host repair " + h.Name + given(cmd)}
			}
			if err != nil {
				return signals.explain(err)
			}
			return printOutcome(h, server, out)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&scope, "scope", "", "for claude-code, the `SCOPE`: user for all your projects, or project for .mcp.json of this one (default user)")
	return cmd
}

func printOutcome(h agenthost.Host, s agenthost.Server, out agenthost.Outcome) error {
	if out.Already {
		_, err := fmt.Printf("%s already has %q: %s\n", h.Title, s.Name, s)
		return err
	}
	text := fmt.Sprintf("%s now has %q: %s\nin %s\n", h.Title, s.Name, s, out.File)
	if out.Previous != "" {
		text += "previous configuration: " + out.Previous + "\n"
	}
	if out.Backup != "" {
		text += "backup: " + out.Backup + "\n"
	}
	_, err := fmt.Print(text)
	return err
}
