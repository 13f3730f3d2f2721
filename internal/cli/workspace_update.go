package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceUpdate() *cobra.Command {
	var req pyro.UpdateWorkspaceRequest
	var name, network string
	var set []string
	cmd := onWorkspace("update ID", "Change a workspace's name, labels and settings",
		`Change the name, the labels and the settings of a workspace.

A running workspace gets a new time to live and a new network policy at once. Connections and
published ports that the new policy refuses are closed.

New processors and memory take effect at the next start, and so does the first network of a
workspace without one. A paused workspace must be stopped and started for that. The command lists
the settings that wait for the next start.

--egress-allow and --egress-deny replace all rules of their kind. --clear-egress removes all rules.`,
		`  pyro workspace update ws-0123456789ab --name fix-tests --label ticket=42
  pyro workspace update ws-0123456789ab --clear-name --clear-label ticket
  pyro workspace update ws-0123456789ab --vcpu-count 4 --mem-mib 8192
  pyro workspace update ws-0123456789ab --network-policy egress --egress-allow proxy.golang.org:443`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.WorkspaceID, req.NetworkPolicy = args[0], pyro.NetworkPolicy(network)
			if cmd.Flags().Changed("name") {
				req.Name = &name
			}
			if req.Labels, err = parsePairs("KEY=VALUE", set); err != nil {
				return err
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Workspace, error) {
				w, err := p.UpdateWorkspace(ctx, req)
				if err == nil {
					printPendingSettings(w)
				}
				return w, err
			}, showWorkspace)
		})
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "new name")
	f.BoolVar(&req.ClearName, "clear-name", false, "remove the name")
	f.StringArrayVar(&set, "label", nil, "set a label, as `KEY=VALUE` (repeatable)")
	f.StringArrayVar(&req.ClearLabels, "clear-label", nil, "remove the label with this `KEY` (repeatable)")
	f.Var(change(&req.VCPUCount), "vcpu-count", "virtual processors")
	f.Var(change(&req.MemMiB), "mem-mib", "memory in MiB")
	f.Var(change(&req.TTLSeconds), "ttl-seconds", "stop it after this time without use, in seconds")
	f.StringVar(&network, "network-policy", "", "new network `POLICY`: off, egress or egress+published-ports")
	egressFlags(f, &req.EgressAllow, &req.EgressDeny)
	f.BoolVar(&req.ClearEgress, "clear-egress", false, "remove all egress rules that are not given")
	completeFlag(cmd, "network-policy", pyro.NetworkPolicies)
	return cmd
}

// printPendingSettings prints the settings that will apply at the next start to standard error.
func printPendingSettings(w *pyro.Workspace) {
	if len(w.AppliesAtNextStart) == 0 {
		return
	}
	flags := strings.NewReplacer("vcpu_count", "--vcpu-count", "mem_mib", "--mem-mib", "network_policy", "--network-policy").Replace(strings.Join(w.AppliesAtNextStart, ", "))
	why := "its machine runs"
	if w.State == pyro.StatePaused {
		why = "its machine is paused, and resumes as it was"
	}
	fmt.Fprintf(os.Stderr, "pyro: note: %s will apply at the next start, because %s\npyro: hint: pyro workspace stop %s && pyro workspace start %s\n",
		flags, why, w.WorkspaceID, w.WorkspaceID)
}
