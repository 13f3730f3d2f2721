package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// start starts a command in the background, and prints its number.
func (o workspaceExecOptions) start(cmd *cobra.Command, id string, argv []string) error {
	env, secretEnv, err := o.programFlags.parse()
	if err != nil {
		return err
	}
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceCommand, error) {
		return p.StartCommand(ctx, pyro.StartCommandRequest{
			WorkspaceID: id, Argv: argv, Env: env, SecretEnv: secretEnv, User: o.user, Cwd: o.cwd, TimeoutSeconds: o.timeoutSeconds,
		})
	}, func(c *pyro.WorkspaceCommand) error {
		_, err := fmt.Println(c.Sequence)
		if !o.quiet {
			commandFooter("exec", c)
		}
		return err
	})
}

// commandFooter prints the state of a command to standard error.
func commandFooter(what string, c *pyro.WorkspaceCommand, more ...string) {
	line := fmt.Sprintf("[workspace-%s] workspace_id=%s sequence=%d state=%s", what, c.WorkspaceID, c.Sequence, c.State)
	if c.ExitCode != nil {
		line += fmt.Sprintf(" exit_code=%d duration_ms=%.0f", *c.ExitCode, c.DurationMS)
	}
	if c.Broken != "" {
		line += fmt.Sprintf(" reason=%q", fault.Printable(c.Broken))
	}
	fmt.Fprintln(os.Stderr, strings.Join(append([]string{line}, more...), " "))
}

// onCommand returns a command whose arguments are a workspace and the number of a command in the
// history. If the number is optional and missing, run gets 0.
func onCommand(use, short, long, example string, run func(cmd *cobra.Command, id string, sequence int) error) *cobra.Command {
	cmd := onWorkspace(use, short, long, example, func(cmd *cobra.Command, args []string) error {
		sequence := 0
		if len(args) > 1 {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				return fault.New(fault.Invalid, "find command", fault.Printable(args[1]), "it is not the number of a command").
					WithHint("pyro workspace logs %s", args[0])
			}
			sequence = n
		}
		return run(cmd, args[0], sequence)
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return completeWorkspace(cmd, args, typed)
		}
		return suggest(typed, func(ctx context.Context, p *pyro.Pyro) ([]pyro.CommandEntry, error) {
			logs, err := p.LogsWorkspace(ctx, args[0])
			if err != nil {
				return nil, err
			}
			return logs.Entries, nil
		}, func(c pyro.CommandEntry) (string, string) { return strconv.Itoa(c.Sequence), string(c.State) })
	}
	return cmd
}

// followCommand prints the output of a command until the command ends.
func followCommand(cmd *cobra.Command, id string, sequence int) error {
	to := newOutputs()
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceCommand, error) {
		return p.FollowCommand(ctx, pyro.FollowCommandRequest{WorkspaceID: id, Sequence: sequence, Stdout: to.stdout, Stderr: to.stderr, Dropped: to.drop})
	}, func(c *pyro.WorkspaceCommand) error {
		to.endLine()
		commandFooter("logs", c, fmt.Sprintf("dropped_bytes=%d", to.dropped))
		return nil
	})
}

// readCommand prints the output of a command that is stored now.
func readCommand(cmd *cobra.Command, req pyro.ReadCommandRequest) error {
	to := newOutputs()
	return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.CommandOutput, error) {
		for {
			out, err := p.ReadCommand(ctx, req)
			if err != nil || wantsJSON(cmd) {
				return out, err
			}
			if out.DroppedBytes > 0 {
				to.endLine()
				warnDropped("output", out.DroppedBytes)
			}
			stdout, stderr := out.Output()
			_, printed := to.stdout.Write(stdout)
			_, complained := to.stderr.Write(stderr)
			if err := errors.Join(printed, complained); err != nil || !out.Truncated {
				return out, err
			}
			req.Cursor = out.NextCursor
		}
	}, func(out *pyro.CommandOutput) error {
		to.endLine()
		c := &pyro.WorkspaceCommand{WorkspaceID: out.WorkspaceID, CommandEntry: pyro.CommandEntry{Sequence: out.Sequence, State: out.State, Broken: out.Broken}}
		line := "next_cursor=" + out.NextCursor
		if out.ExitCode != nil {
			line += fmt.Sprintf(" exit_code=%d", *out.ExitCode)
		}
		commandFooter("logs", c, line)
		return nil
	})
}

func newWorkspacePs() *cobra.Command {
	return onWorkspace("ps ID", "List the running commands of a workspace",
		`List the commands of exec that have not ended, with and without --detach. pyro workspace logs also
lists commands that have ended.`, "", func(cmd *cobra.Command, args []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceCommands, error) {
				return p.ListCommands(ctx, args[0])
			}, func(all *pyro.WorkspaceCommands) error {
				now := time.Now()
				rows := [][]string{{"COMMAND", "STATE", "STARTED", "CWD", "ARGUMENTS"}}
				for _, c := range all.Commands {
					rows = append(rows, []string{strconv.Itoa(c.Sequence), string(c.State), ago(now, c.StartedAt), quoted(c.Cwd), fault.CommandLine(c.Argv)})
				}
				return table(os.Stdout, rows)
			})
		})
}

func newWorkspaceWait() *cobra.Command {
	req := pyro.WaitCommandRequest{}
	cmd := onCommand("wait ID COMMAND", "Wait for the end of a command",
		`Wait until a command has ended. COMMAND is its number in the history: see pyro workspace ps. The
command continues if you interrupt the wait.

The exit code is the command's, or:

  124    the time limit of the command or of the wait is over
  125    pyro itself failed, or the end of the command is unknown
  126    the command cannot be executed
  127    the command does not exist
  128+n  signal n ended the command`,
		`  pyro workspace wait ws-0123456789ab 3
  pyro workspace wait ws-0123456789ab 3 --timeout-seconds 60`,
		func(cmd *cobra.Command, id string, sequence int) error {
			req.WorkspaceID, req.Sequence = id, sequence
			return waitCommand(cmd, req)
		})
	cmd.Flags().Var(positive(&req.TimeoutSeconds, 0), "timeout-seconds", "time limit of the wait, in seconds (default none)")
	return cmd
}

func waitCommand(cmd *cobra.Command, req pyro.WaitCommandRequest) error {
	task, err := openTask(cmd.Context())
	if err != nil {
		return err
	}
	defer task.close()
	c, err := task.pyro.WaitCommand(task.ctx, req)
	if err != nil {
		return task.signals.explain(err)
	}
	code := fault.ExitFailure
	switch {
	case c.ExitCode != nil:
		code = *c.ExitCode
	case c.Broken == "":
		code = fault.ExitTimeout
	}
	return finish(wantsJSON(cmd), c, code, &lineStart{Writer: os.Stderr, at: true}, func(w io.Writer) {
		switch {
		case c.TimedOut:
			fprintError(w, "the command reached its time limit", "use a larger --timeout-seconds for pyro workspace exec")
		case c.NotRun != "":
			fprintError(w, c.NotRun, "")
		case c.Broken != "":
			fprintError(w, "the end of the command is unknown: "+c.Broken, "")
		case c.ExitCode == nil:
			fprintError(w, fmt.Sprintf("the command has not ended after %d s", req.TimeoutSeconds), fmt.Sprintf("pyro workspace kill %s %d", c.WorkspaceID, c.Sequence))
		}
		commandFooter("wait", c)
	})
}

func newWorkspaceKill() *cobra.Command {
	var req pyro.KillCommandRequest
	cmd := onCommand("kill ID COMMAND", "End a command", `End a command with all processes that it started. COMMAND is its number in the history: see pyro
workspace ps. Signals other than KILL go to the process group of the command, and pyro does not
wait for the end. If the command has ended, kill does nothing.`,
		`  pyro workspace kill ws-0123456789ab 3
  pyro workspace kill ws-0123456789ab 3 --signal INT`,
		func(cmd *cobra.Command, id string, sequence int) error {
			req.WorkspaceID, req.Sequence = id, sequence
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceCommand, error) {
				return p.KillCommand(ctx, req)
			}, func(c *pyro.WorkspaceCommand) error {
				commandFooter("kill", c)
				return nil
			})
		})
	cmd.Flags().StringVar(&req.SignalName, "signal", "KILL", "the `SIGNAL`: "+strings.Join(pyro.CommandSignals, ", "))
	return cmd
}
