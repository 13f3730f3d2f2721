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
	return hostChange("connect", "Have a host start pyro, by the host's own command", `Have HOST start pyro, by the host's own command: one of `+strings.Join(names, ", ")+`. It is
given the absolute path of this pyro, and what is set of PYRO_STATE_DIR, PYRO_CACHE_DIR,
PYRO_ISOLATION, PYRO_RUNSC, XDG_STATE_HOME and XDG_CACHE_HOME. A host that has it so already is
left as it is; one that has it in another way is an error, and "pyro host repair" puts it right.
For other hosts there is "pyro host print-config".`, `  pyro host connect claude-code
  pyro host connect codex --profile workspace-full`, names, agenthost.Host.Connect)
}

func newHostRepair() *cobra.Command {
	names := hostsThat(agenthost.Host.Repairable)
	return hostChange("repair", "Put right how a host starts pyro", `Have HOST start pyro as "pyro host connect" with these flags would, whatever it has under that
name now: one of `+strings.Join(names, ", ")+`. What it has is removed and added by the host's own
command. opencode's file is edited: everything else in it stays as it was, and a copy of the file
is kept beside it. One with comments is left alone, and you are told what to put into it.`, `  pyro host repair claude-code
  pyro host repair opencode --profile workspace-full`, names, agenthost.Host.Repair)
}

// hostsThat gives the names of hosts that something can be done with.
func hostsThat(can func(agenthost.Host) bool) []string {
	return agenthost.Names(slices.DeleteFunc(slices.Clone(agenthost.Hosts), func(h agenthost.Host) bool { return !can(h) })...)
}

// hostChange is a command that changes what a host has.
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
	cmd.Flags().StringVar(&scope, "scope", "", "claude-code: for all projects of the user, or in the .mcp.json of this one: `user` or project (default user)")
	return cmd
}

func printOutcome(h agenthost.Host, s agenthost.Server, out agenthost.Outcome) error {
	if out.Already {
		_, err := fmt.Printf("%s has %q already: %s\n", h.Title, s.Name, s)
		return err
	}
	text := fmt.Sprintf("%s has %q now: %s\nin %s\n", h.Title, s.Name, s, out.File)
	if out.Was != "" {
		text += "it was: " + out.Was + "\n"
	}
	if out.Kept != "" {
		text += "a copy of the file as it was: " + out.Kept + "\n"
	}
	_, err := fmt.Print(text)
	return err
}
