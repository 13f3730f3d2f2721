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

// followService streams the output of a service until it ends.
func followService(cmd *cobra.Command, req pyro.LogsServiceRequest) error {
	if wantsJSON(cmd) {
		return usage(cmd, "--follow and --json exclude each other")
	}
	to := newOutputs()
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
		return p.FollowService(ctx, pyro.FollowServiceRequest{
			WorkspaceID: req.WorkspaceID, ServiceName: req.ServiceName, TailLines: req.TailLines, All: req.All, Stdout: to.stdout, Stderr: to.stderr, Dropped: to.drop,
		})
	}, func(s *pyro.Service) error {
		to.endLine()
		line := fmt.Sprintf("[workspace-service-logs] workspace_id=%s service_name=%s state=%s dropped_bytes=%d", s.WorkspaceID, s.ServiceName, s.State, to.dropped)
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

// outputs prints both output streams of a program.
type outputs struct {
	stdout, stderr *lineStart
	dropped        int64 // missing bytes
}

func newOutputs() *outputs {
	return &outputs{stdout: &lineStart{Writer: os.Stdout, at: true}, stderr: &lineStart{Writer: os.Stderr, at: true}}
}

// endLine ends a line of output before pyro prints its own line. Files and pipes get only the
// output of the program.
func (o *outputs) endLine() {
	if !o.stdout.at && term.IsTerminal(int(os.Stdout.Fd())) {
		fmt.Fprintln(o.stdout)
	}
	if !o.stderr.at {
		fmt.Fprintln(o.stderr)
	}
}

// drop prints a warning that output is missing at this point.
func (o *outputs) drop(out, errs int64) {
	o.dropped += out + errs
	o.endLine()
	warnDropped("standard output", out)
	warnDropped("standard error", errs)
}

// warnDropped prints a warning that output is missing at this point.
func warnDropped(stream string, bytes int64) {
	if bytes > 0 {
		fmt.Fprintf(os.Stderr, "pyro: warning: %d bytes of its %s are missing here: they were discarded\n", bytes, stream)
	}
}

// followLogs prints the history of a workspace. Then it prints each further command when the
// command has ended.
func followLogs(cmd *cobra.Command, id string) error {
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.LogsEnd, error) {
		return p.FollowLogs(ctx, pyro.FollowLogsRequest{WorkspaceID: id, Entry: showEntry})
	}, func(e *pyro.LogsEnd) error {
		fmt.Fprintf(os.Stderr, "[workspace-logs] workspace_id=%s state=%s reason=%q\n", e.WorkspaceID, e.State, fault.Printable(e.StateReason))
		return nil
	})
}
