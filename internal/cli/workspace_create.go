package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newWorkspaceCreate() *cobra.Command {
	var req pyro.CreateWorkspaceRequest
	var isolation string
	var labels, secrets, secretFiles []string
	var network string
	var idOnly bool
	cmd := command("create ENV", "Create a workspace and start it",
		`Create a workspace from an environment and start it.

--seed-path copies a folder or a .tar, .tar.gz or .tgz archive to /workspace. Modes, symbolic links
and empty folders are kept, and root owns everything. Devices, pipes and sockets are left out. The
first content of /workspace is the baseline. pyro workspace sync pull brings later changes back into
the folder.

In a git checkout, files that git ignores are left out, because they often hold secrets. Tracked
files and .git are always copied. If git ignores the whole folder, everything is copied.
--include-ignored copies all files. For a worktree or a submodule, pyro also copies the repository.

--disk-mib sets the size of /workspace. If it is full, writes fail with ENOSPC. pyro refuses a seed
that does not fit.

Secrets are stored encrypted on this host. With --secret-env, the commands exec, shell open and
service start pass a secret to a program in an environment variable. pyro redacts secrets in output.

These are the network policies:

  off                     no network
  egress                  the public Internet, but not this host and private networks
  egress+published-ports  also lets this host reach services, see --publish of service start`,
		`  pyro workspace create debian:12
  pyro workspace create debian:12 --seed-path . --name fix-tests --label ticket=42
  id=$(pyro workspace create debian:12 --seed-path repo.tgz --id-only)`,
		func(cmd *cobra.Command, args []string) (err error) {
			req.Environment, req.Isolation, req.NetworkPolicy = args[0], pyro.Isolation(isolation), pyro.NetworkPolicy(network)
			if req.Labels, err = parsePairs("KEY=VALUE", labels); err != nil {
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
					if missing := w.WorkspaceSeed.GitMissing; missing != "" {
						fmt.Fprintln(os.Stderr, "pyro: warning: "+quoted(missing))
					}
					_, err := fmt.Println(w.WorkspaceID)
					return err
				}
				if w.WorkspaceSeed.Mode == "directory" {
					fmt.Fprintln(os.Stderr, "pyro: to bring changes back into your folder: pyro workspace sync pull "+w.WorkspaceID)
				}
				return showWorkspace(w)
			})
		})
	cmd.ValidArgsFunction = completeEnvironment
	f := cmd.Flags()
	f.StringVar(&req.SeedPath, "seed-path", "", "`PATH` of a folder, .tar, .tar.gz or .tgz to copy to /workspace")
	f.BoolVar(&req.IncludeIgnored, "include-ignored", false, "with --seed-path: also copy files that git ignores")
	f.StringVar(&req.Name, "name", "", "name of the workspace")
	f.StringArrayVar(&labels, "label", nil, "set a label, as `KEY=VALUE` (repeatable)")
	f.StringVar(&network, "network-policy", string(pyro.NetworkOff), "network `POLICY`: off, egress or egress+published-ports")
	egressFlags(f, &req.EgressAllow, &req.EgressDeny)
	hostNetworkFlags(f, &req.HostNetworkSettings, &req.HostNetworkCredentials)
	completeFlag(cmd, "network-policy", pyro.NetworkPolicies)
	f.BoolVar(&idOnly, "id-only", false, "print only the id")
	f.StringArrayVar(&secrets, "secret", nil, "store a secret for programs, as `NAME=VALUE`; the process list shows the value (repeatable)")
	f.StringArrayVar(&secretFiles, "secret-file", nil, "store the content of a file as a secret, as `NAME=PATH` (repeatable)")
	machineFlags(cmd, &req.VCPUCount, &req.MemMiB, &isolation, &req.AllowHostCompat)
	f.Var(positive(&req.DiskMiB, pyro.DefaultDiskMiB), "disk-mib", "size of /workspace in MiB, 64 to 16384")
	f.Var(positive(&req.TTLSeconds, pyro.DefaultTTLSeconds), "ttl-seconds", "stop it after this time without use, in seconds")
	f.Var(positive(&req.AutoPauseSeconds, 0), "auto-pause-seconds", "pause it after this time without use, in seconds")
	return cmd
}

// machineFlags adds the flags that configure a machine.
func machineFlags(cmd *cobra.Command, vcpus, memMiB *int, isolation *string, allowHostCompat *bool) {
	f := cmd.Flags()
	f.Var(positive(vcpus, pyro.DefaultVCPUCount), "vcpu-count", "virtual processors")
	f.Var(positive(memMiB, pyro.DefaultMemMiB), "mem-mib", "memory in MiB")
	f.StringVar(isolation, "isolation", "", "isolation `LEVEL`: auto, kvm, gvisor or tcg (default: $PYRO_ISOLATION, else auto)")
	f.BoolVar(allowHostCompat, "allow-host-compat", false, "if no machine can start, run on the host without isolation")
	completeFlag(cmd, "isolation", pyro.Isolations)
}
