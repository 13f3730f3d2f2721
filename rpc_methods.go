package pyro

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/rpc"
)

// methods are this package's operations, under the names that they have in SDKs. testdata/rpc.golden has them as they are promised.
func (p *Pyro) methods() []rpc.Method {
	return slices.Concat(p.environmentMethods(), p.vmMethods(), p.workspaceMethods(), p.fileMethods(), p.snapshotMethods(), p.serviceMethods(), p.shellMethods())
}

func (p *Pyro) environmentMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("doctor", "pyro doctor",
			told(p.Doctor, func(r *DoctorRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("prepare_environment", "pyro prepare",
			told(p.PrepareEnvironment, func(r *PrepareEnvironmentRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("list_environments", "pyro env list", bare(func(ctx context.Context) (*environments, error) {
			all, err := p.ListEnvironments(ctx)
			return &environments{all}, err
		})),
		rpc.Bind("pull_environment", "pyro env pull",
			told(p.PullEnvironment, func(r *PullEnvironmentRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("inspect_environment", "pyro env inspect", func(ctx context.Context, on onEnvironment, _ *rpc.Call) (*Environment, error) {
			return p.InspectEnvironment(ctx, on.Environment)
		}),
		rpc.Bind("prune_environments", "pyro env prune", plain(p.PruneEnvironments)),
	}
}

func (p *Pyro) vmMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("run_in_vm", "pyro run", p.runPrinting).Telling(rpc.Progress | rpc.Output),
		rpc.Bind("create_vm", "CreateVM",
			told(p.CreateVM, func(r *CreateVMRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("start_vm", "StartVM", ofVM(p.StartVM)),
		rpc.Bind("exec_vm", "ExecVM", plain(p.ExecVM)),
		rpc.Bind("stop_vm", "StopVM", ofVM(p.StopVM)),
		rpc.Bind("delete_vm", "DeleteVM", ofVM(p.DeleteVM)),
		rpc.Bind("status_vm", "StatusVM", ofVM(p.StatusVM)),
		rpc.Bind("network_info_vm", "NetworkInfoVM", ofVM(p.NetworkInfoVM)),
		rpc.Bind("reap_expired", "ReapExpired", bare(p.ReapExpired)),
	}
}

func (p *Pyro) workspaceMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("create_workspace", "pyro workspace create",
			told(p.CreateWorkspace, func(r *CreateWorkspaceRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("list_workspaces", "pyro workspace list", plain(func(ctx context.Context, filter WorkspaceFilter) (*workspaceList, error) {
			all, err := p.ListWorkspaces(ctx, filter)
			return &workspaceList{all}, err
		})),
		rpc.Bind("status_workspace", "pyro workspace status", ofWorkspace(p.StatusWorkspace)),
		rpc.Bind("summarize_workspace", "pyro workspace summary", ofWorkspace(p.SummarizeWorkspace)),
		rpc.Bind("update_workspace", "pyro workspace update", plain(p.UpdateWorkspace)),
		rpc.Bind("start_workspace", "pyro workspace start",
			told(p.StartWorkspace, func(r *StartWorkspaceRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("stop_workspace", "pyro workspace stop", ofWorkspace(p.StopWorkspace)),
		rpc.Bind("pause_workspace", "pyro workspace pause", ofWorkspace(p.PauseWorkspace)),
		rpc.Bind("resume_workspace", "pyro workspace resume",
			told(p.ResumeWorkspace, func(r *ResumeWorkspaceRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("delete_workspace", "pyro workspace delete", ofWorkspace(p.DeleteWorkspace)),
		rpc.Bind("exec_workspace", "pyro workspace exec", p.execPrinting).Telling(rpc.Output),
		rpc.Bind("logs_workspace", "pyro workspace logs", ofWorkspace(p.LogsWorkspace)),
		rpc.Bind("network_log_workspace", "pyro workspace network log", plain(p.NetworkLog)),
	}
}

func (p *Pyro) fileMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("push_workspace_sync", "pyro workspace sync push",
			told(p.PushWorkspaceSync, func(r *PushWorkspaceSyncRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("list_workspace_files", "pyro workspace file list", plain(p.ListWorkspaceFiles)),
		rpc.Bind("read_workspace_file", "pyro workspace file read", plain(p.ReadWorkspaceFile)),
		rpc.Bind("write_workspace_file", "pyro workspace file write", plain(p.WriteWorkspaceFile)),
		rpc.Bind("apply_workspace_patch", "pyro workspace patch apply", plain(p.ApplyWorkspacePatch)),
		rpc.Bind("diff_workspace", "pyro workspace diff", plain(p.DiffWorkspace)),
		rpc.Bind("export_workspace", "pyro workspace export", plain(p.ExportWorkspace)),
		rpc.Bind("export_workspace_disk", "pyro workspace disk export",
			told(p.ExportWorkspaceDisk, func(r *ExportWorkspaceDiskRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("list_workspace_disk", "pyro workspace disk list", plain(p.ListWorkspaceDisk)),
		rpc.Bind("read_workspace_disk", "pyro workspace disk read", plain(p.ReadWorkspaceDisk)),
	}
}

func (p *Pyro) snapshotMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("create_snapshot", "pyro workspace snapshot create", plain(p.CreateSnapshot)),
		rpc.Bind("list_snapshots", "pyro workspace snapshot list", ofWorkspace(p.ListSnapshots)),
		rpc.Bind("delete_snapshot", "pyro workspace snapshot delete", ofSnapshot(p.DeleteSnapshot)),
		rpc.Bind("reset_workspace", "pyro workspace reset",
			told(p.ResetWorkspace, func(r *ResetWorkspaceRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
		rpc.Bind("fork_workspace", "pyro workspace fork",
			told(p.fork, func(r *ForkWorkspaceRequest, f ProgressFunc) { r.Progress = f })).Telling(rpc.Progress),
	}
}

func (p *Pyro) serviceMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("start_service", "pyro workspace service start", plain(p.StartService)),
		rpc.Bind("list_services", "pyro workspace service list", ofWorkspace(p.ListServices)),
		rpc.Bind("status_service", "pyro workspace service status", ofService(p.StatusService)),
		rpc.Bind("logs_service", "pyro workspace service logs", plain(p.LogsService)),
		rpc.Bind("stop_service", "pyro workspace service stop", ofService(p.StopService)),
	}
}

func (p *Pyro) shellMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Bind("open_shell", "pyro workspace shell open", plain(p.OpenShell)),
		rpc.Bind("list_shells", "pyro workspace shell list", ofWorkspace(p.ListShells)),
		rpc.Bind("read_shell", "pyro workspace shell read", plain(p.ReadShell)),
		rpc.Bind("write_shell", "pyro workspace shell write", plain(p.WriteShell)),
		rpc.Bind("signal_shell", "pyro workspace shell signal", plain(p.SignalShell)),
		rpc.Bind("resize_shell", "pyro workspace shell resize", plain(p.ResizeShell)),
		rpc.Bind("close_shell", "pyro workspace shell close", ofShell(p.CloseShell)),
	}
}
