package pyro

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// FollowServiceRequest says which service to follow, and where its output goes.
type FollowServiceRequest struct {
	WorkspaceID string
	ServiceName string
	TailLines   int  // begin with the last so many lines of each stream; default DefaultTailLines
	All         bool // begin with all that is kept, instead

	Stdout io.Writer // what the service prints, as it comes; nil: dropped
	Stderr io.Writer
	// Dropped is told how many bytes of each stream are missing before what is written next: they were
	// no longer kept when the writers were ready for them. It may be nil.
	Dropped func(stdout, stderr int64)
}

// FollowService writes what a service has printed, and then what it prints as it comes, until it ends, is paused with
// its workspace, or ctx ends. Only the run that goes on at the call is followed, none that is started later.
// To follow does not use the workspace: one that is paused stays so, and one that nobody uses is paused.
// If the service does not run, FollowService writes what is kept and returns. Slow writers hold up nothing.
// The result is the service as it was when it was no longer followed.
func (p *Pyro) FollowService(ctx context.Context, req FollowServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("tail_lines", &req.TailLines, DefaultTailLines, 1, 1<<30); err != nil {
		return nil, err
	}
	to := remote.ServiceReader{Lines: req.TailLines, Out: req.Stdout, Errs: req.Stderr, Dropped: req.Dropped}
	if to.Dropped == nil {
		to.Dropped = func(int64, int64) {}
	}
	if req.All {
		to.Lines = 0
	}
	for _, w := range []*io.Writer{&to.Out, &to.Errs} {
		if *w == nil {
			*w = io.Discard
		}
	}
	s, spec, err := p.workspaces.FollowService(ctx, req.WorkspaceID, req.ServiceName, to)
	return serviceOf(ctx, req.WorkspaceID, s, spec, err)
}

// FollowLogsRequest says which workspace's history to follow, and where its commands go.
type FollowLogsRequest struct {
	WorkspaceID string
	// Entry takes one command. An error from it ends FollowLogs, which returns it.
	Entry func(CommandEntry) error
}

// LogsEnd says why FollowLogs ended.
type LogsEnd struct {
	WorkspaceID string
	State       WorkspaceState // StatePaused, or StateStopped: the latter also if the workspace was reset or deleted
	StateReason string
}

// FollowLogs passes on the history of a workspace as LogsWorkspace gives it, and then each command when it has ended.
// A command that was running at first comes again with its end. FollowLogs returns when the workspace is stopped,
// paused or deleted, or ctx ends, and at once if the workspace does not run. It does not use the workspace: a paused
// one stays paused, and one that nobody uses is paused.
func (p *Pyro) FollowLogs(ctx context.Context, req FollowLogsRequest) (*LogsEnd, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if req.Entry == nil {
		return nil, invalid("entry is missing: it takes the commands")
	}
	state, reason, err := p.workspaces.FollowHistory(ctx, req.WorkspaceID, func(c store.Command) error { return req.Entry(entryOf(c)) })
	if err != nil {
		return nil, because(ctx, err)
	}
	return &LogsEnd{WorkspaceID: req.WorkspaceID, State: WorkspaceState(state), StateReason: reason}, nil
}
