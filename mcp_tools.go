package pyro

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/project"
)

// simply is an operation without progress.
func simply[Req, Res any](operation func(context.Context, Req) (Res, error)) func(context.Context, Req, func(string)) (Res, error) {
	return func(ctx context.Context, req Req, _ func(string)) (Res, error) { return operation(ctx, req) }
}

// byID is an operation on a workspace.
func byID[Res any](operation func(context.Context, string) (Res, error)) func(context.Context, onWorkspace, func(string)) (Res, error) {
	return func(ctx context.Context, req onWorkspace, _ func(string)) (Res, error) {
		return operation(ctx, req.WorkspaceID)
	}
}

// byVM is an operation on a machine.
func byVM[Res any](operation func(context.Context, string) (Res, error)) func(context.Context, onVM, func(string)) (Res, error) {
	return func(ctx context.Context, req onVM, _ func(string)) (Res, error) { return operation(ctx, req.VMID) }
}

func (p *Pyro) vmTools() []mcp.Tool {
	network := append([]mcp.Arg{mcp.Flag("network", "let it reach the public Internet").By(false)}, argEgress...)
	vm := []mcp.Arg{argVM}
	return []mcp.Tool{
		mcp.Bind("vm_run", "Run one command in a fresh, isolated machine, which is then removed.", mcp.Runs,
			machineArgs(append([]mcp.Arg{argCommand, argTimeout}, network...)...),
			func(ctx context.Context, req RunInVMRequest, report func(string)) (*RunResult, error) {
				req.Progress = progressOf(report)
				r, err := p.runPassing(ctx, req, mcp.Output(ctx), mcp.Output(ctx))
				if err == nil {
					warnOf(ctx, r.HostCompatReason, r.EmulatedReason, r.UnlimitedReason)
					cutRun(r)
				}
				return r, err
			}),
		mcp.Bind("vm_list_environments", "List the environments that machines start from.", mcp.Reads, nil,
			func(ctx context.Context, _ struct{}, _ func(string)) (*environments, error) {
				all, err := p.ListEnvironments(ctx)
				return &environments{all}, err
			}),
		mcp.Bind("vm_create", "Make a machine for one command; vm_start starts it.", mcp.Fetches, machineArgs(network...),
			func(ctx context.Context, req CreateVMRequest, report func(string)) (*VM, error) {
				req.Progress = progressOf(report)
				vm, err := p.CreateVM(ctx, req)
				if err == nil {
					warnOf(ctx, vm.HostCompatReason, vm.EmulatedReason, "")
				}
				return vm, err
			}),
		mcp.Bind("vm_start", "Start a machine that was created.", mcp.Sets, vm, byVM(p.StartVM)),
		mcp.Bind("vm_exec", "Run one command in a started machine, which is then deleted.", mcp.Runs, []mcp.Arg{argVM, argCommand, argTimeout},
			func(ctx context.Context, req ExecVMRequest, _ func(string)) (*VMExecResult, error) {
				r, err := p.ExecVM(ctx, req)
				if err == nil {
					cutExec(&r.WorkspaceExecResult)
				}
				return r, err
			}),
		mcp.Bind("vm_stop", "Stop a machine.", mcp.Replaces, vm, byVM(p.StopVM)),
		mcp.Bind("vm_delete", "Delete a machine.", mcp.Replaces, vm, byVM(p.DeleteVM)),
		mcp.Bind("vm_status", "Tell what a machine does.", mcp.Reads, vm, byVM(p.StatusVM)),
		mcp.Bind("vm_network_info", "Tell what network a machine has.", mcp.Reads, vm, byVM(p.NetworkInfoVM)),
		mcp.Bind("vm_reap_expired", "Delete the machines whose time is over.", mcp.Replaces, nil,
			func(ctx context.Context, _ struct{}, _ func(string)) (*ReapedVMs, error) { return p.ReapExpired(ctx) }),
	}
}

// workspaceTools are those of a workspace's life. folder is the project that new ones are filled with, or "".
func (p *Pyro) workspaceTools(folder string) []mcp.Tool {
	id := []mcp.Arg{argWorkspace}
	about, seed := "Make a persistent workspace: an isolated machine with files in /workspace.", "folder or .tar/.tar.gz/.tgz of the host to fill /workspace with"
	if folder != "" {
		about += " Without seed_path they are a copy of the project " + project.Name(folder) + "."
		seed += `; default: the project; "": nothing`
	}
	create := []mcp.Arg{
		mcp.Text("seed_path", seed), argIncludeIgnored, mcp.Text("name", ""), mcp.Pairs("labels", ""),
		mcp.Number("disk_mib", "size of /workspace", MinDiskMiB, MaxDiskMiB).By(DefaultDiskMiB),
		mcp.Text("network_policy", "", string(NetworkOff), string(NetworkEgress), string(NetworkPublished)).By(NetworkOff),
	}
	create = append(append(create, argEgress...), mcp.Objects("secrets", "kept for its programs, see secret_env",
		mcp.Text("name", "").Must(), mcp.Text("value", ""), mcp.Text("file_path", "of the host, instead")))
	return []mcp.Tool{
		mcp.Bind("workspace_create", about, mcp.Fetches, machineArgs(create...),
			func(ctx context.Context, asked seeded, report func(string)) (*Workspace, error) {
				req := asked.from(folder)
				req.Progress = progressOf(report)
				w, err := p.CreateWorkspace(ctx, req)
				if err == nil {
					warnOf(ctx, w.HostCompatReason, w.EmulatedReason, "")
				}
				return w, err
			}),
		mcp.Bind("workspace_list", "List the workspaces, the last used first.", mcp.Reads, []mcp.Arg{mcp.Pairs("labels", "only those with these"), mcp.Text("state", "", string(StateStarted), string(StateStopped), string(StatePaused), string(StateDamaged))},
			func(ctx context.Context, filter WorkspaceFilter, _ func(string)) (*workspaces, error) {
				all, err := p.ListWorkspaces(ctx, filter)
				return &workspaces{len(all), all}, err
			}),
		mcp.Bind("workspace_status", "Tell what a workspace is and does.", mcp.Reads, id, byID(p.StatusWorkspace)),
		mcp.Bind("workspace_update", "Change the name and labels of a workspace.", mcp.Replaces,
			[]mcp.Arg{argWorkspace, mcp.Text("name", ""), mcp.Flag("clear_name", ""), mcp.Pairs("labels", "to set"), mcp.Texts("clear_labels", "keys to remove")},
			simply(p.UpdateWorkspace)),
		mcp.Bind("workspace_stop", "Stop a workspace; files, snapshots and history stay.", mcp.Replaces, id, byID(p.StopWorkspace)),
		mcp.Bind("workspace_start", "Start a stopped workspace again.", mcp.Sets, id,
			func(ctx context.Context, req onWorkspace, report func(string)) (*Workspace, error) {
				return p.StartWorkspace(ctx, StartWorkspaceRequest{WorkspaceID: req.WorkspaceID, Progress: progressOf(report)})
			}),
		mcp.Bind("workspace_pause", "Write the machine of a workspace to disk and free its memory. The next call on it resumes it.", mcp.Sets, id, byID(p.PauseWorkspace)),
		mcp.Bind("workspace_resume", "Resume a paused workspace, with all that ran in it.", mcp.Sets, id,
			func(ctx context.Context, req onWorkspace, report func(string)) (*Workspace, error) {
				return p.ResumeWorkspace(ctx, ResumeWorkspaceRequest{WorkspaceID: req.WorkspaceID, Progress: progressOf(report)})
			}),
		mcp.Bind("workspace_delete", "Delete a workspace with all it holds.", mcp.Replaces, id, byID(p.DeleteWorkspace)),
		mcp.Bind("workspace_exec", "Run a command in /workspace and wait for it.", mcp.Runs, []mcp.Arg{argWorkspace, argCommand, argTimeout, argSecretEnv},
			func(ctx context.Context, req ExecWorkspaceRequest, _ func(string)) (*WorkspaceExecResult, error) {
				r, err := p.execPassing(ctx, req, mcp.Output(ctx), mcp.Output(ctx))
				if err == nil {
					cutExec(r)
				}
				return r, err
			}),
		mcp.Bind("workspace_logs", "List the commands that were run in a workspace, with their output.", mcp.Reads, id,
			func(ctx context.Context, req onWorkspace, _ func(string)) (*WorkspaceLogs, error) {
				l, err := p.LogsWorkspace(ctx, req.WorkspaceID)
				if err == nil {
					cutLogs(l)
				}
				return l, err
			}),
		mcp.Bind("workspace_summary", "Tell what was done in a workspace since it was created or last reset, and what differs now.", mcp.Reads, id,
			func(ctx context.Context, req onWorkspace, _ func(string)) (*WorkspaceActivity, error) {
				a, err := p.SummarizeWorkspace(ctx, req.WorkspaceID)
				if err == nil {
					cutActivity(a)
				}
				return a, err
			}),
		mcp.Bind("workspace_reset", "Start over from the baseline or a snapshot, with a fresh machine.", mcp.Changes,
			[]mcp.Arg{argWorkspace, mcp.Text("snapshot", "").By("baseline")},
			func(ctx context.Context, req ResetWorkspaceRequest, report func(string)) (*Workspace, error) {
				req.Progress = progressOf(report)
				return p.ResetWorkspace(ctx, req)
			}),
		mcp.Bind("workspace_fork", "Make new workspaces that begin as a workspace is now, or as a snapshot of it.", mcp.Adds, []mcp.Arg{
			argWorkspace, mcp.Text("snapshot", "default: as it is now"), mcp.Flag("live", "with all that runs in it").By(false), mcp.Number("count", "", 1, MaxForks).By(1),
			mcp.Text("name", ""), mcp.Pairs("labels", ""),
		}, p.forkForAgent),
		mcp.Bind("workspace_network_log", "List what a workspace did on its network, and what it was refused.", mcp.Reads, []mcp.Arg{argWorkspace, argTail, argAll},
			func(ctx context.Context, req NetworkLogRequest, _ func(string)) (*NetworkLog, error) {
				l, err := p.NetworkLog(ctx, req)
				if err == nil {
					cutNetwork(l)
				}
				return l, err
			}),
	}
}

func (p *Pyro) fileTools() []mcp.Tool {
	at := mcp.Text("path", "in /workspace").By(WorkspacePath)
	onDisk := mcp.Text("path", "absolute, or in /workspace").By(WorkspacePath)
	output := mcp.Text("output_path", "of the host").Must()
	file := mcp.Text("path", "in /workspace").Must()
	return []mcp.Tool{
		mcp.Bind("workspace_sync_push", "Copy a folder or archive of the host into a workspace.", mcp.Replaces,
			[]mcp.Arg{argWorkspace, mcp.Text("source_path", "of the host").Must(), mcp.Text("dest", "").By(WorkspacePath), argIncludeIgnored},
			func(ctx context.Context, req PushWorkspaceSyncRequest, report func(string)) (*WorkspaceSync, error) {
				req.Progress = progressOf(report)
				return p.PushWorkspaceSync(ctx, req)
			}),
		mcp.Bind("workspace_file_list", "List files.", mcp.Reads, []mcp.Arg{argWorkspace, at, argRecursive, argIncludeGit, argFull},
			func(ctx context.Context, req fileListRequest, _ func(string)) (*fileList, error) {
				f, err := p.ListWorkspaceFiles(ctx, req.ListWorkspaceFilesRequest)
				return newFileList(f, req.Full), err
			}),
		mcp.Bind("workspace_file_read", "Read a text file.", mcp.Reads, []mcp.Arg{argWorkspace, file, argMaxBytes}, simply(p.ReadWorkspaceFile)),
		mcp.Bind("workspace_file_write", "Write a text file, making folders.", mcp.Replaces, []mcp.Arg{argWorkspace, file, mcp.Text("text", "all of it").Must().Or("content")}, simply(p.WriteWorkspaceFile)),
		mcp.Bind("workspace_patch_apply", "Apply a unified diff, all of it or nothing.", mcp.Changes, []mcp.Arg{argWorkspace, mcp.Text("patch", "as of git diff").Must()}, simply(p.ApplyWorkspacePatch)),
		mcp.Bind("workspace_diff", "Show what differs from the baseline.", mcp.Reads, []mcp.Arg{
			argWorkspace, mcp.Texts("paths", "in /workspace; default: all"), mcp.Flag("include_ignored", "what .gitignore names, and __pycache__").By(false),
			mcp.Flag("stat", "without the patch").By(false),
		},
			func(ctx context.Context, req DiffWorkspaceRequest, _ func(string)) (*WorkspaceDiff, error) {
				d, err := p.DiffWorkspace(ctx, req)
				if err == nil {
					cutDiff(d)
				}
				return d, err
			}),
		mcp.Bind("workspace_export", "Copy a file or folder out of a workspace to the host.", mcp.Replaces,
			[]mcp.Arg{argWorkspace, file, output, mcp.Flag("overwrite", "replace what is there, a folder with all in it").By(false)},
			func(ctx context.Context, req exported, _ func(string)) (*WorkspaceExport, error) {
				req.Force = req.Overwrite
				return p.ExportWorkspace(ctx, req.ExportWorkspaceRequest)
			}),
		mcp.Bind("workspace_disk_export", "Copy the disk of a stopped workspace to the host, as a raw ext4 image.", mcp.Adds, []mcp.Arg{argWorkspace, output},
			func(ctx context.Context, req ExportWorkspaceDiskRequest, report func(string)) (*WorkspaceDiskExport, error) {
				req.Progress = progressOf(report)
				return p.ExportWorkspaceDisk(ctx, req)
			}),
		mcp.Bind("workspace_disk_list", "List files of a stopped workspace.", mcp.Reads, []mcp.Arg{argWorkspace, onDisk, argRecursive, argIncludeGit, argFull},
			func(ctx context.Context, req diskListRequest, _ func(string)) (*fileList, error) {
				f, err := p.ListWorkspaceDisk(ctx, req.ListWorkspaceDiskRequest)
				return newFileList(f, req.Full), err
			}),
		mcp.Bind("workspace_disk_read", "Read a text file of a stopped workspace.", mcp.Reads, []mcp.Arg{argWorkspace, mcp.Text("path", "absolute, or in /workspace").Must(), argMaxBytes}, simply(p.ReadWorkspaceDisk)),
	}
}

func (p *Pyro) snapshotTools() []mcp.Tool {
	name := mcp.Text("snapshot_name", "").Must()
	return []mcp.Tool{
		mcp.Bind("snapshot_create", "Keep the present /workspace under a name.", mcp.Adds, []mcp.Arg{argWorkspace, name}, simply(p.CreateSnapshot)),
		mcp.Bind("snapshot_list", "List the snapshots of a workspace.", mcp.Reads, []mcp.Arg{argWorkspace}, byID(p.ListSnapshots)),
		mcp.Bind("snapshot_delete", "Delete a snapshot.", mcp.Replaces, []mcp.Arg{argWorkspace, name},
			func(ctx context.Context, req onSnapshot, _ func(string)) (*DeletedSnapshot, error) {
				return p.DeleteSnapshot(ctx, req.WorkspaceID, req.SnapshotName)
			}),
	}
}

func (p *Pyro) serviceTools() []mcp.Tool {
	name := mcp.Text("service_name", "").Must()
	one := []mcp.Arg{argWorkspace, name}
	return []mcp.Tool{
		mcp.Bind("service_start", "Start a program in the background under a name, and wait until it is ready.", mcp.Runs, []mcp.Arg{
			argWorkspace, name, argCommand, mcp.Text("cwd", "").By(WorkspacePath),
			mcp.Object("readiness", "", mcp.Text("type", "", string(ReadyFile), string(ReadyTCP), string(ReadyHTTP), string(ReadyCommand)).Must(), mcp.Text("target", "path, [HOST:]PORT, URL or command").Must()),
			mcp.Number("ready_timeout_seconds", "", 1, 3600).By(DefaultReadyTimeoutSeconds), mcp.Number("ready_interval_ms", "", 1, 60_000).By(DefaultReadyIntervalMS), argSecretEnv,
			mcp.Objects("published_ports", "reach them from the host, at its 127.0.0.1", mcp.Number("guest_port", "", 1, 65535).Must(), mcp.Number("host_port", "default: a free one", 0, 65535)),
		}, simply(p.StartService)),
		mcp.Bind("service_list", "List the services of a workspace.", mcp.Reads, []mcp.Arg{argWorkspace}, byID(p.ListServices)),
		mcp.Bind("service_status", "Tell what a service does.", mcp.Reads, one,
			func(ctx context.Context, req onService, _ func(string)) (*Service, error) {
				return p.StatusService(ctx, req.WorkspaceID, req.ServiceName)
			}),
		mcp.Bind("service_logs", "Show what a service printed last.", mcp.Reads, append(one[:2:2], argTail, argAll),
			func(ctx context.Context, req LogsServiceRequest, _ func(string)) (*ServiceLogs, error) {
				l, err := p.LogsService(ctx, req)
				if err == nil {
					cutService(l)
				}
				return l, err
			}),
		mcp.Bind("service_stop", "Stop a service.", mcp.Replaces, one,
			func(ctx context.Context, req onService, _ func(string)) (*Service, error) {
				return p.StopService(ctx, req.WorkspaceID, req.ServiceName)
			}),
	}
}

func (p *Pyro) shellTools() []mcp.Tool {
	one := []mcp.Arg{argWorkspace, mcp.Text("shell_id", "").Must()}
	with := func(more ...mcp.Arg) []mcp.Arg { return append(one[:2:2], more...) }
	return []mcp.Tool{
		mcp.Bind("shell_open", "Open a shell on a terminal that persists. For single commands use workspace_exec.", mcp.Runs, []mcp.Arg{
			argWorkspace, mcp.Text("cwd", "").By(WorkspacePath), mcp.Number("cols", "", 1, 1000).By(DefaultShellCols), mcp.Number("rows", "", 1, 1000).By(DefaultShellRows), argSecretEnv,
		}, simply(p.OpenShell)),
		mcp.Bind("shell_read", "Read what a shell printed, from a cursor on.", mcp.Reads, with(
			mcp.Number("cursor", "next_cursor of the read before", 0, 0).By(0), mcp.Number("max_chars", "", 1, MaxReadChars).By(DefaultMaxChars),
			mcp.Flag("plain", "as a person sees it, without control sequences").By(false), mcp.Number("wait_for_idle_ms", "wait until it was quiet for so long", 1, MaxWaitForIdleMS)),
			simply(p.ReadShell)),
		mcp.Bind("shell_write", "Type into a shell.", mcp.Runs, with(mcp.Text("input", "").Must(), mcp.Flag("append_newline", "").By(true)), simply(p.WriteShell)),
		mcp.Bind("shell_signal", "Send a signal to what runs in a shell.", mcp.Changes, with(mcp.Text("signal_name", "", ShellSignals...).By("INT")), simply(p.SignalShell)),
		mcp.Bind("shell_close", "Close a shell.", mcp.Replaces, one,
			func(ctx context.Context, req onShell, _ func(string)) (*ClosedShell, error) {
				return p.CloseShell(ctx, req.WorkspaceID, req.ShellID)
			}),
	}
}
