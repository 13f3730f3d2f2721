package pyro

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// FollowServiceRequest names a service to follow and the writers for the service's output.
type FollowServiceRequest struct {
	WorkspaceID string
	ServiceName string
	TailLines   int  // number of last lines of each stream to start with; default DefaultTailLines
	All         bool // start with all stored output instead

	Stdout io.Writer // receives the standard output; nil: discard it
	Stderr io.Writer
	// Dropped is called if bytes are missing because they are no longer stored. The arguments are
	// the number of bytes that are missing before the next write to each stream. Dropped can be
	// nil.
	Dropped func(stdout, stderr int64)
}

// FollowService writes the output of a service until the service ends, its workspace is paused, or
// ctx ends. If a new service with the same name is started, FollowService does not follow it.
// Following does not count as use of the workspace. If the service does not run, FollowService
// writes the stored output and returns. Slow writers do not slow the service down. The result is
// the final state of the service.
func (p *Pyro) FollowService(ctx context.Context, req FollowServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("tail_lines", &req.TailLines, DefaultTailLines, 1, 1<<30); err != nil {
		return nil, err
	}
	to := workspace.ServiceReader{Lines: req.TailLines, Out: req.Stdout, Errs: req.Stderr, Dropped: req.Dropped}
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

// FollowLogsRequest names the workspace whose history to follow.
type FollowLogsRequest struct {
	WorkspaceID string
	// Entry is called for each command. If Entry returns an error, FollowLogs returns that error.
	Entry func(CommandEntry) error
}

// LogsEnd is the reason why FollowLogs returned.
type LogsEnd struct {
	WorkspaceID string
	State       WorkspaceState // StatePaused, or StateStopped after a stop, a reset or a deletion
	StateReason string
}

// FollowLogs calls Entry for each command in the history of a workspace, then for each new command
// when it has ended. If a command runs at the time of the call, Entry is called twice for it: first
// without an outcome, and again when the command has ended. FollowLogs returns when the workspace
// is stopped, paused or deleted, or when ctx ends. If the workspace does not run, FollowLogs
// returns after the history. Following does not count as use of the workspace.
func (p *Pyro) FollowLogs(ctx context.Context, req FollowLogsRequest) (*LogsEnd, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if req.Entry == nil {
		return nil, invalid("the function entry is missing")
	}
	state, reason, err := p.workspaces.FollowHistory(ctx, req.WorkspaceID, func(c workspace.Command) error { return req.Entry(entryOf(c)) })
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &LogsEnd{WorkspaceID: req.WorkspaceID, State: WorkspaceState(state), StateReason: reason}, nil
}
