package operations

import (
	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// machines returns the operations on environments, and on machines for one command.
func machines() []Operation {
	network := []mcp.Arg{mcp.Boolean("network", "let it reach the public Internet").Default(false), argEgressAllow, argEgressDeny, argHostNetwork}
	return []Operation{
		operation("run_in_vm", "pyro run", (*pyro.Pyro).RunInVM).
			tool("vm_run", "Run a command in a fresh machine", "Run one command in a new, isolated machine, then remove it.",
				mcp.Runs, machineArgs(append([]mcp.Arg{argCommand, argUser, argTimeout}, network...)...)...).core(),
		operation("list_environments", "pyro env list", without(ListEnvironments)).
			tool("vm_list_environments", "List environments", "List the environments that machines start from.", mcp.Reads),

		operation("doctor", "pyro doctor", (*pyro.Pyro).Doctor),
		operation("host_network_settings", "pyro host network-settings", without(HostNetworkSettings)),
		operation("prepare_environment", "pyro prepare", (*pyro.Pyro).PrepareEnvironment),
		operation("pull_environment", "pyro env pull", (*pyro.Pyro).PullEnvironment),
		operation("inspect_environment", "pyro env inspect", byEnvironment((*pyro.Pyro).InspectEnvironment)),
		operation("prune_environments", "pyro env prune", (*pyro.Pyro).PruneEnvironments),
		operation("build_environment", "pyro env build", (*pyro.Pyro).BuildEnvironment),
		operation("commit_workspace", "pyro env commit", (*pyro.Pyro).CommitWorkspace),
		operation("push_environment", "pyro env push", (*pyro.Pyro).PushEnvironment),
		operation("save_environment", "pyro env save", (*pyro.Pyro).SaveEnvironment),
		operation("load_environment", "pyro env load", (*pyro.Pyro).LoadEnvironment),

		operation("create_vm", "CreateVM", (*pyro.Pyro).CreateVM).
			tool("vm_create", "Create a machine", "Create a machine for one command; vm_start starts it.", mcp.Fetches, machineArgs(network...)...),
		operation("start_vm", "StartVM", byVM((*pyro.Pyro).StartVM)).
			tool("vm_start", "Start a machine", "Start a created machine.", mcp.Sets, argVM),
		operation("exec_vm", "ExecVM", (*pyro.Pyro).ExecVM).
			tool("vm_exec", "Run a command in a machine", "Run one command in a started machine, and delete the machine.", mcp.Runs, argVM, argCommand, argTimeout),
		operation("stop_vm", "StopVM", byVM((*pyro.Pyro).StopVM)).
			tool("vm_stop", "Stop a machine", "Stop a machine.", mcp.Replaces, argVM),
		operation("delete_vm", "DeleteVM", byVM((*pyro.Pyro).DeleteVM)).
			tool("vm_delete", "Delete a machine", "Delete a machine.", mcp.Replaces, argVM),
		operation("status_vm", "StatusVM", byVM((*pyro.Pyro).StatusVM)).
			tool("vm_status", "Show a machine", "Show the state of a machine.", mcp.Reads, argVM),
		operation("network_info_vm", "NetworkInfoVM", byVM((*pyro.Pyro).NetworkInfoVM)).
			tool("vm_network_info", "Show a machine's network", "Show the network of a machine.", mcp.Reads, argVM),
		operation("reap_expired", "ReapExpired", without((*pyro.Pyro).ReapExpired)).
			tool("vm_reap_expired", "Delete expired machines", "Delete the machines that exceeded their time to live.", mcp.Replaces),
	}
}
