package pyro

import (
	"bytes"
	"context"
	"errors"
	"iter"
)

// each returns an iterator over the result of the function list. It calls list when the iteration
// starts. If list fails, the last element is the error.
func each[T any](list func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := list()
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// follow returns an iterator over the elements that the function source sends. The iteration ends
// when source returns. If source fails, the last element is the error.
func follow[T any](source func(each func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		over := false
		err := source(func(one T) error {
			if over = over || !yield(one, nil); over {
				return errLoopEnded
			}
			return nil
		})
		if err != nil && !over {
			var none T
			yield(none, err)
		}
	}
}

var errLoopEnded = errors.New("the loop has ended")

// Workspaces iterates over the workspaces that match all filters, most recently used first.
func (p *Pyro) Workspaces(ctx context.Context, filters ...WorkspaceFilter) iter.Seq2[*Workspace, error] {
	return each(func() ([]*Workspace, error) { return p.matching(ctx, filters) })
}

// Environments iterates over the catalogue and all installed environments, sorted by name.
func (p *Pyro) Environments(ctx context.Context) iter.Seq2[Environment, error] {
	return each(func() ([]Environment, error) { return p.ListEnvironments(ctx) })
}

// Commands iterates over the history of the workspace, oldest first.
func (w *Workspace) Commands(ctx context.Context) iter.Seq2[CommandEntry, error] {
	return each(func() ([]CommandEntry, error) {
		logs, err := use(w, func(p *Pyro, id string) (*WorkspaceLogs, error) { return p.LogsWorkspace(ctx, id) })
		if err != nil {
			return nil, err
		}
		return logs.Entries, nil
	})
}

// FollowCommands iterates over the history of the workspace, then over new commands, each when it
// has ended. The iteration ends when the workspace is stopped or paused. A command that runs when
// the iteration starts is yielded twice: first without an outcome, and again when it has ended.
// Following does not count as use of the workspace.
func (w *Workspace) FollowCommands(ctx context.Context) iter.Seq2[CommandEntry, error] {
	return follow(func(each func(CommandEntry) error) error {
		_, err := use(w, func(p *Pyro, id string) (*LogsEnd, error) {
			return p.FollowLogs(ctx, FollowLogsRequest{WorkspaceID: id, Entry: each})
		})
		return err
	})
}

// Services iterates over the services that were started since the workspace was created or last
// reset, sorted by name.
func (w *Workspace) Services(ctx context.Context) iter.Seq2[Service, error] {
	return each(func() ([]Service, error) {
		all, err := use(w, func(p *Pyro, id string) (*WorkspaceServices, error) { return p.ListServices(ctx, id) })
		if err != nil {
			return nil, err
		}
		return all.Services, nil
	})
}

// Snapshots iterates over the baseline and the snapshots of the workspace, oldest first.
func (w *Workspace) Snapshots(ctx context.Context) iter.Seq2[Snapshot, error] {
	return each(func() ([]Snapshot, error) {
		all, err := use(w, func(p *Pyro, id string) (*WorkspaceSnapshots, error) { return p.ListSnapshots(ctx, id) })
		if err != nil {
			return nil, err
		}
		return all.Snapshots, nil
	})
}

// ServiceOutput is a piece of the output of a service.
type ServiceOutput struct {
	Stderr  bool   // Data is from the standard error, not from the standard output
	Data    []byte // at most 64 KiB
	Dropped int64  // if Data is empty: the number of bytes that are missing here because they are no longer stored
}

// FollowService iterates over the stored output of a service, then over its new output. The
// iteration ends when the service ends or the workspace is paused. A slow loop does not slow the
// service down. Following does not count as use of the workspace.
func (w *Workspace) FollowService(ctx context.Context, name string) iter.Seq2[ServiceOutput, error] {
	return follow(func(each func(ServiceOutput) error) error {
		_, err := use(w, func(p *Pyro, id string) (*Service, error) {
			return p.FollowService(ctx, FollowServiceRequest{
				WorkspaceID: id, ServiceName: name, All: true,
				Stdout: pieces{each, false}, Stderr: pieces{each, true},
				Dropped: func(stdout, stderr int64) {
					if stdout > 0 {
						each(ServiceOutput{Dropped: stdout})
					}
					if stderr > 0 {
						each(ServiceOutput{Stderr: true, Dropped: stderr})
					}
				},
			})
		})
		return err
	})
}

// pieces is a writer that calls the function each for each write.
type pieces struct {
	each   func(ServiceOutput) error
	stderr bool
}

func (p pieces) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return len(b), p.each(ServiceOutput{Stderr: p.stderr, Data: bytes.Clone(b)})
}

// use calls an operation with the Pyro and the id of a workspace.
func use[T any](w *Workspace, do func(p *Pyro, id string) (*T, error)) (*T, error) {
	if w.pyro == nil {
		return nil, errNoHandle
	}
	return do(w.pyro, w.WorkspaceID)
}
