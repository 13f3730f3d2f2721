package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// followService prints what a service prints, to its end.
func followService(cmd *cobra.Command, req pyro.LogsServiceRequest) error {
	if wantsJSON(cmd) {
		return usage(cmd, "--follow and --json exclude each other")
	}
	stdout, stderr := &lineStart{Writer: os.Stdout, at: true}, &lineStart{Writer: os.Stderr, at: true}
	dropped := int64(0)
	endLine := func() { // before what pyro itself says; a file or pipe gets nothing but the service's output
		if !stdout.at && term.IsTerminal(int(os.Stdout.Fd())) {
			fmt.Fprintln(stdout)
		}
		if !stderr.at {
			fmt.Fprintln(stderr)
		}
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
		return p.FollowService(ctx, pyro.FollowServiceRequest{
			WorkspaceID: req.WorkspaceID, ServiceName: req.ServiceName, TailLines: req.TailLines, All: req.All, Stdout: stdout, Stderr: stderr,
			Dropped: func(out, errs int64) {
				dropped += out + errs
				endLine()
				warnDropped("standard output", out)
				warnDropped("standard error", errs)
			},
		})
	}, func(s *pyro.Service) error {
		endLine()
		line := fmt.Sprintf("[workspace-service-logs] workspace_id=%s service_name=%s state=%s dropped_bytes=%d", s.WorkspaceID, s.ServiceName, s.State, dropped)
		if s.ExitCode != nil {
			line += fmt.Sprintf(" exit_code=%d", *s.ExitCode)
		}
		if s.StateReason != "" {
			line += fmt.Sprintf(" reason=%q", fault.Printable(s.StateReason))
		}
		fmt.Fprintln(os.Stderr, line)
		return nil
	})
}

// warnDropped tells that output is missing, and where.
func warnDropped(stream string, bytes int64) {
	if bytes > 0 {
		fmt.Fprintf(os.Stderr, "pyro: warning: %d bytes of its %s are missing here: they are no longer kept\n", bytes, stream)
	}
}

// followLogs prints the commands of a workspace, and then each further one when it has ended.
func followLogs(cmd *cobra.Command, id string) error {
	if wantsJSON(cmd) {
		return usage(cmd, "--follow and --json exclude each other")
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.LogsEnd, error) {
		return p.FollowLogs(ctx, pyro.FollowLogsRequest{WorkspaceID: id, Entry: showEntry})
	}, func(e *pyro.LogsEnd) error {
		fmt.Fprintf(os.Stderr, "[workspace-logs] workspace_id=%s state=%s reason=%q\n", e.WorkspaceID, e.State, fault.Printable(e.StateReason))
		return nil
	})
}
