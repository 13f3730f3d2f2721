package operations

import (
	"context"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/project"
)

// workspaces returns the operations on whole workspaces. The parameter folder is the default seed
// of new workspaces, and can be empty.
func workspaces(folder string) []Operation {
	description, seed := "Create a persistent workspace: an isolated machine with files in /workspace.", "folder or .tar/.tar.gz/.tgz on the host, to fill /workspace"
	if folder != "" {
		description += " Without seed_path they are a copy of the project " + project.Name(folder) + "."
		seed += `; default: the project; "": nothing`
	}
	create := operation("create_workspace", "pyro workspace create", (*pyro.Pyro).CreateWorkspace).
		tool("workspace_create", "Create a workspace", description, mcp.Fetches, machineArgs(
			mcp.String("seed_path", seed), argIncludeIgnored, mcp.String("name", ""), mcp.StringMap("labels", ""),
			mcp.Integer("disk_mib", "size of /workspace", pyro.MinDiskMiB, pyro.MaxDiskMiB).Default(pyro.DefaultDiskMiB),
			mcp.String("network_policy", "", string(pyro.NetworkOff), string(pyro.NetworkEgress), string(pyro.NetworkPublished)).Default(pyro.NetworkOff),
			argEgressAllow, argEgressDeny, argHostNetwork,
			mcp.Objects("secrets", "for programs, see secret_env",
				mcp.String("name", "").Require(), mcp.String("value", ""), mcp.String("file_path", "or a file on the host")),
		)...).core("network_policy", "egress_allow", "egress_deny", "host_network_settings", "secrets")
	return []Operation{
		toolCalls(create, func(p *pyro.Pyro, ctx context.Context, req seeded) (*pyro.Workspace, error) {
			return p.CreateWorkspace(ctx, req.from(folder))
		}),
		operation("list_workspaces", "pyro workspace list", ListWorkspaces).
			tool("workspace_list", "List workspaces", "List workspaces, the last used first.", mcp.Reads, mcp.StringMap("labels", "only workspaces with these"),
				mcp.String("state", "", string(pyro.StateStarted), string(pyro.StateStopped), string(pyro.StatePaused), string(pyro.StateDamaged))).core(),
		operation("status_workspace", "pyro workspace status", byWorkspace((*pyro.Pyro).StatusWorkspace)).
			tool("workspace_status", "Show a workspace", "Show the state and settings of a workspace.", mcp.Reads, argWorkspace).core().remote(NeedsRecords),
		operation("stats_workspaces", "pyro workspace stats", (*pyro.Pyro).StatsWorkspaces),
		operation("update_workspace", "pyro workspace update", (*pyro.Pyro).UpdateWorkspace).
			tool("workspace_update", "Change a workspace", "Change the name, labels and settings of a workspace. applies_at_next_start lists the settings that need a stop and a start.", mcp.Replaces,
				argWorkspace, mcp.String("name", ""), mcp.Boolean("clear_name", ""), mcp.StringMap("labels", "to set"), mcp.Strings("clear_labels", "keys to remove"),
				mcp.Integer("vcpu_count", "", 1, pyro.MaxVCPUCount), mcp.Integer("mem_mib", "", pyro.MinMemMiB, 0), mcp.Integer("ttl_seconds", "", 1, pyro.MaxSeconds),
				mcp.String("network_policy", "", string(pyro.NetworkOff), string(pyro.NetworkEgress), string(pyro.NetworkPublished)),
				mcp.Boolean("clear_egress", "remove all egress rules first"), argEgressAllow, argEgressDeny).
			core("vcpu_count", "mem_mib", "ttl_seconds", "network_policy", "clear_egress", "egress_allow", "egress_deny"),
		operation("stop_workspace", "pyro workspace stop", byWorkspace((*pyro.Pyro).StopWorkspace)).
			tool("workspace_stop", "Stop a workspace", "Stop a workspace; files, snapshots and history stay.", mcp.Replaces, argWorkspace),
		operation("start_workspace", "pyro workspace start", (*pyro.Pyro).StartWorkspace).
			tool("workspace_start", "Start a workspace", "Start a stopped workspace again.", mcp.Sets, argWorkspace),
		operation("pause_workspace", "pyro workspace pause", byWorkspace((*pyro.Pyro).PauseWorkspace)).
			tool("workspace_pause", "Pause a workspace", "Save the machine of a workspace to disk and free its memory. The next call on it resumes it.", mcp.Sets, argWorkspace),
		operation("resume_workspace", "pyro workspace resume", (*pyro.Pyro).ResumeWorkspace).
			tool("workspace_resume", "Resume a workspace", "Resume a paused workspace with all its programs.", mcp.Sets, argWorkspace),
		operation("delete_workspace", "pyro workspace delete", byWorkspace((*pyro.Pyro).DeleteWorkspace)).
			tool("workspace_delete", "Delete a workspace", "Delete a workspace with its files, snapshots and history.", mcp.Replaces, argWorkspace).core(),
		operation("exec_workspace", "pyro workspace exec", (*pyro.Pyro).ExecWorkspace).
			tool("workspace_exec", "Run a command", "Run a command in /workspace and wait for its end.", mcp.Runs, argWorkspace, argCommand, argUser, argTimeout, argSecretEnv).core("secret_env").remote(NeedsMachine),
		operation("logs_workspace", "pyro workspace logs", byWorkspace((*pyro.Pyro).LogsWorkspace)).
			tool("workspace_logs", "List commands that were run", "List the commands that ran in a workspace, with their output.", mcp.Reads, argWorkspace).core().remote(NeedsRecords),
		operation("summarize_workspace", "pyro workspace summary", byWorkspace((*pyro.Pyro).SummarizeWorkspace)).
			tool("workspace_summary", "Summarize a workspace", "Summarize the activity in a workspace since its creation or last reset, and its changes.", mcp.Reads, argWorkspace).remote(NeedsRecords),
		operation("reset_workspace", "pyro workspace reset", (*pyro.Pyro).ResetWorkspace).
			tool("workspace_reset", "Reset a workspace", "Start over from the baseline or a snapshot, with a fresh machine.", mcp.Changes,
				argWorkspace, mcp.String("snapshot", "").Default("baseline")).core().remote(ReplacesMachine),
		operation("fork_workspace", "pyro workspace fork", ForkWorkspace).
			tool("workspace_fork", "Fork a workspace", "Create workspaces from the current state or a snapshot of a workspace.", mcp.Adds,
				argWorkspace, mcp.String("snapshot", "default: the current state"), mcp.Boolean("live", "with its processes").Default(false),
				mcp.Integer("count", "", 1, pyro.MaxForks).Default(1), mcp.String("name", ""), mcp.StringMap("labels", "")),
		operation("network_log_workspace", "pyro workspace network log", (*pyro.Pyro).NetworkLog).
			tool("workspace_network_log", "List network activity", "List the connections of a workspace and the refused attempts.", mcp.Reads, argWorkspace, argTail, argAll).remote(NeedsRecords),
	}
}

// seeded is a CreateWorkspaceRequest that distinguishes a missing seed_path from an empty one.
type seeded struct {
	pyro.CreateWorkspaceRequest
	SeedPath *string `json:"seed_path,omitempty"`
}

// from returns the request with the project as its seed if seed_path is missing.
func (r seeded) from(project string) pyro.CreateWorkspaceRequest {
	req := r.CreateWorkspaceRequest
	if r.SeedPath != nil {
		req.SeedPath = *r.SeedPath
	} else {
		req.SeedPath, req.FromProject = project, project != ""
	}
	return req
}

// snapshots returns the operations on snapshots.
func snapshots() []Operation {
	name := mcp.String("snapshot_name", "").Require()
	return []Operation{
		operation("create_snapshot", "pyro workspace snapshot create", (*pyro.Pyro).CreateSnapshot).
			tool("snapshot_create", "Create a snapshot", "Save /workspace under a name.", mcp.Adds, argWorkspace, name).remote(NeedsMachine),
		operation("list_snapshots", "pyro workspace snapshot list", byWorkspace((*pyro.Pyro).ListSnapshots)).
			tool("snapshot_list", "List snapshots", "List the snapshots of a workspace.", mcp.Reads, argWorkspace).remote(NeedsRecords),
		operation("delete_snapshot", "pyro workspace snapshot delete", bySnapshot((*pyro.Pyro).DeleteSnapshot)).
			tool("snapshot_delete", "Delete a snapshot", "Delete a snapshot.", mcp.Replaces, argWorkspace, name).remote(NeedsRecords),
	}
}
