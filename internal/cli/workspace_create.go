package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceCreate() *cobra.Command {
	var req pyro.CreateWorkspaceRequest
	var isolation string
	var labels, secrets, secretFiles []string
	var network string
	var idOnly bool
	cmd := command("create ENV", "Make a workspace and start it",
		`Make a workspace from an environment and start it. With --seed-path its /workspace begins
as a folder of yours, or as what a .tar, .tar.gz or .tgz archive holds: modes, symbolic
links and empty folders are kept, everything belongs to root, and devices, pipes and sockets
are left out. What it begins as is its baseline.

Of a folder in a git checkout it leaves out the files that git ignores, since secrets such as
.env are often among them. Tracked files are never left out, nor is .git. A folder that git
ignores as a whole is taken as it is. --include-ignored takes all files.

/workspace has the size that --disk-mib gives. When it is full, writes fail with ENOSPC. A seed
that does not fit is refused.

Secrets are kept sealed on this host. A program gets one by --secret-env of exec, shell open
or service start, in an environment variable; what programs print is shown without them.

With --network-policy off it has no network. With egress it reaches the public Internet, and
nothing of this host and of private networks. With egress+published-ports its services can
also be reached from this host, by --publish of service start.`,
		`  pyro workspace create debian:12
  pyro workspace create debian:12 --seed-path . --name fix-tests --label ticket=42
  id=$(pyro workspace create debian:12 --seed-path repo.tgz --id-only)`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.Environment, req.Isolation, req.NetworkPolicy = args[0], pyro.Isolation(isolation), pyro.NetworkPolicy(network)
			if req.Labels, err = parsePairs("--label", labels); err != nil {
				return err
			}
			if req.Secrets, err = parseSecrets(secrets, secretFiles); err != nil {
				return err
			}
			if wantsJSON(cmd) && idOnly {
				return usage(cmd, "--json and --id-only exclude each other")
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, report pyro.ProgressFunc) (*pyro.Workspace, error) {
				req.Progress = report
				w, err := p.CreateWorkspace(ctx, req)
				if err == nil {
					warnIsolation(w)
				}
				return w, err
			}, func(w *pyro.Workspace) error {
				if idOnly {
					_, err := fmt.Println(w.WorkspaceID)
					return err
				}
				return showWorkspace(w)
			})
		})
	cmd.ValidArgsFunction = completeEnvironment
	f := cmd.Flags()
	f.StringVar(&req.SeedPath, "seed-path", "", "fill /workspace with this folder, .tar, .tar.gz or .tgz of yours, `PATH`")
	f.BoolVar(&req.IncludeIgnored, "include-ignored", false, "with --seed-path: take the files that git ignores, too")
	f.StringVar(&req.Name, "name", "", "call it so, for people")
	f.StringArrayVar(&labels, "label", nil, "label it, as `KEY=VALUE` (repeatable)")
	f.StringVar(&network, "network-policy", string(pyro.NetworkOff), "what it may reach: `off`, egress or egress+published-ports")
	egressFlags(f, &req.EgressAllow, &req.EgressDeny)
	completeFlag(cmd, "network-policy", pyro.NetworkPolicies)
	f.BoolVar(&idOnly, "id-only", false, "print the id and nothing else")
	f.StringArrayVar(&secrets, "secret", nil, "keep a secret for its programs, as `NAME=VALUE`; others on this host can see it meanwhile (repeatable)")
	f.StringArrayVar(&secretFiles, "secret-file", nil, "keep what a file holds as a secret, as `NAME=PATH` (repeatable)")
	machineFlags(cmd, &req.VCPUCount, &req.MemMiB, &isolation, &req.AllowHostCompat)
	f.Var(positive(&req.DiskMiB, pyro.DefaultDiskMiB), "disk-mib", "size of /workspace in MiB, 64 to 16384")
	f.Var(positive(&req.TTLSeconds, pyro.DefaultTTLSeconds), "ttl-seconds", "stop it, with nothing lost, when nothing was done with it for so many seconds")
	f.Var(positive(&req.AutoPauseSeconds, 0), "auto-pause-seconds", "pause it, with all that runs in it, when nothing was done with it for so many seconds")
	return cmd
}

// machineFlags adds the flags that say what machine to start.
func machineFlags(cmd *cobra.Command, vcpus, memMiB *int, isolation *string, allowHostCompat *bool) {
	f := cmd.Flags()
	f.Var(positive(vcpus, pyro.DefaultVCPUCount), "vcpu-count", "virtual processors")
	f.Var(positive(memMiB, pyro.DefaultMemMiB), "mem-mib", "memory in MiB")
	f.StringVar(isolation, "isolation", "", "what stands between the machine and the host: `auto`, kvm, gvisor or tcg (default: $PYRO_ISOLATION, else auto)")
	f.BoolVar(allowHostCompat, "allow-host-compat", false, "where no machine can be started, run on the host, isolated by nothing")
	completeFlag(cmd, "isolation", pyro.Isolations)
}
