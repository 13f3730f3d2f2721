package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceLogs() *cobra.Command {
	var follow bool
	req := pyro.ReadCommandRequest{}
	cmd := onCommand("logs ID [COMMAND]", "Show the history of a workspace, or the output of a command",
		`Show the commands that ran in a workspace since its creation or last reset, with their output.

With COMMAND, print only the output of this command. COMMAND is its number in the history. pyro
stores the last 1 MiB of each stream of a detached command while its machine runs. After that, and
for other commands, the history has the first and the last 32 KiB. With --follow, pyro prints new
output until the command ends. With --cursor, pyro prints only the output after an earlier read.

Without COMMAND and with --follow, pyro continues and shows each further command when it ends. A
command that is still running is shown again at its end. Following ends at Ctrl-C, or when the
workspace is stopped, paused, reset or deleted. The exit code is then 0. Following the history does
not count as use: it neither resumes a workspace nor delays a pause.`,
		`  pyro workspace logs ws-0123456789ab
  pyro workspace logs ws-0123456789ab --follow
  pyro workspace logs ws-0123456789ab 3 --follow`,
		func(cmd *cobra.Command, id string, sequence int) error {
			req.WorkspaceID, req.Sequence = id, sequence
			switch {
			case follow && wantsJSON(cmd):
				return usage(cmd, "--follow and --json exclude each other")
			case sequence == 0 && req.Cursor != "":
				return usage(cmd, "--cursor needs a COMMAND")
			case follow && req.Cursor != "":
				return usage(cmd, "--follow and --cursor exclude each other")
			case follow && sequence > 0:
				return followCommand(cmd, id, sequence)
			case sequence > 0:
				return readCommand(cmd, req)
			case follow:
				return followLogs(cmd, id)
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceLogs, error) {
				return p.LogsWorkspace(ctx, id)
			}, showLogs)
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue, and show new output, or each command when it ends (not with --json)")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "start of the read: next_cursor of the previous read of the COMMAND")
	return cmd
}

func showLogs(logs *pyro.WorkspaceLogs) error {
	for _, c := range logs.Entries {
		if err := showEntry(c); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "[workspace-logs] workspace_id=%s count=%d\n", logs.WorkspaceID, logs.Count)
	return nil
}

// showEntry prints a command from the history, with its output.
func showEntry(c pyro.CommandEntry) error {
	how := string(c.State)
	switch {
	case c.Broken != "":
		how = "interrupted: " + c.Broken
	case c.ExitCode != nil:
		how = fmt.Sprintf("exit code %d after %.2fs", *c.ExitCode, c.DurationMS/1000)
	}
	if _, err := fmt.Printf("%d  %s  (%s, in %s, %s)\n", c.Sequence, fault.CommandLine(c.Argv), ago(time.Now(), c.StartedAt), c.Cwd, how); err != nil {
		return err
	}
	if err := indented(c.Stdout, c.StdoutEncoding); err != nil {
		return err
	}
	return indented(c.Stderr, c.StderrEncoding)
}

// indented prints output with an indentation. The output is safe for a terminal.
func indented(text string, encoding pyro.Encoding) error {
	if encoding != pyro.UTF8 {
		text = fmt.Sprintf("[%d bytes that are not text]", len(text)*3/4)
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Println("   ", fault.Printable(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}
