package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspaceShell() *cobra.Command {
	cmd := subgroup("shell", "Use terminals in a workspace that persist between commands",
		newShellOpen(), newShellList(), newShellRead(), newShellWrite(), newShellSignal(), newShellResize(), newShellAttach(), newShellClose())
	cmd.Long = `A shell is a program on a terminal of its own. It keeps running when pyro ends. pyro stores its
output for reads with a cursor, and several clients can type into it.

Use exec for single commands: they have an exit code and stay in the history. Use a shell if state
must last between commands, or for interactive programs such as debuggers and editors. Shells end
when you close them, and when the workspace is stopped, reset or deleted.

  id=$(pyro workspace shell open WORKSPACE --id-only)
  pyro workspace shell write WORKSPACE $id --input 'make test'
  pyro workspace shell read WORKSPACE $id --plain --wait-for-idle-ms 300
  pyro workspace shell attach WORKSPACE $id`
	return cmd
}

// shellFooter prints the state of a shell to standard error.
func shellFooter(what string, s pyro.Shell, more ...string) {
	line := fmt.Sprintf("[workspace-shell-%s] workspace_id=%s shell_id=%s state=%s cwd=%s cols=%d rows=%d execution_mode=%s",
		what, s.WorkspaceID, s.ShellID, s.State, quoted(s.Cwd), s.Cols, s.Rows, s.ExecutionMode)
	if s.ExitCode != nil {
		line += fmt.Sprintf(" exit_code=%d", *s.ExitCode)
	}
	fmt.Fprintln(os.Stderr, strings.Join(append([]string{line}, more...), " "))
}

func newShellOpen() *cobra.Command {
	var req pyro.OpenShellRequest
	var program programFlags
	var idOnly bool
	cmd := onWorkspace("open ID", "Open a shell",
		"Open a shell and print its id. The shell is bash, or sh if the environment has no bash.", "  pyro workspace shell open ws-0123456789ab --cwd src",
		func(cmd *cobra.Command, args []string) (err error) {
			if wantsJSON(cmd) && idOnly {
				return usage(cmd, "--json and --id-only exclude each other")
			}
			req.WorkspaceID = args[0]
			if req.Env, req.SecretEnv, err = program.parse(); err != nil {
				return err
			}
			req.User, req.Cwd = program.user, program.cwd
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Shell, error) {
				return p.OpenShell(ctx, req)
			},
				func(s *pyro.Shell) error {
					_, err := fmt.Println(s.ShellID)
					if !idOnly {
						shellFooter("open", *s)
					}
					return err
				})
		})
	f := cmd.Flags()
	f.Var(positive(&req.Cols, pyro.DefaultShellCols), "cols", "columns of its terminal")
	f.Var(positive(&req.Rows, pyro.DefaultShellRows), "rows", "rows of its terminal")
	program.workspaceFlags(f)
	f.BoolVar(&idOnly, "id-only", false, "print only the id of the shell")
	return cmd
}

func newShellList() *cobra.Command {
	return onWorkspace("list ID", "List the shells of a workspace", "", "", func(cmd *cobra.Command, args []string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceShells, error) {
			return p.ListShells(ctx, args[0])
		}, func(all *pyro.WorkspaceShells) error {
			now := time.Now()
			rows := [][]string{{"SHELL", "STATE", "SIZE", "OPENED", "CWD"}}
			for _, s := range all.Shells {
				state := string(s.State)
				if s.ExitCode != nil {
					state += fmt.Sprintf(" (exit code %d)", *s.ExitCode)
				}
				rows = append(rows, []string{s.ShellID, state, fmt.Sprintf("%d x %d", s.Cols, s.Rows), ago(now, s.OpenedAt), quoted(s.Cwd)})
			}
			return table(os.Stdout, rows)
		})
	})
}

func newShellRead() *cobra.Command {
	var req pyro.ReadShellRequest
	cmd := onPart("read ID SHELL", "Print the output of a shell",
		`Print the output of a shell after --cursor. Standard error names the cursor for the next read, so
that no output is lost or repeated. --plain prints the text on the screen, without colours and
overwritten text.

--wait-for-idle-ms waits until the shell is silent for this time, because a command has then
probably ended. After input, pyro first waits up to 5 seconds for output, and after opening up to
15 seconds.`,
		`  pyro workspace shell read ws-0123456789ab sh-0123456789ab --plain --wait-for-idle-ms 300
  pyro workspace shell read ws-0123456789ab sh-0123456789ab --cursor 1200 --json`,
		completeShell, func(cmd *cobra.Command, id, shell string) error {
			req.WorkspaceID, req.ShellID = id, shell
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.ShellOutput, error) {
				return p.ReadShell(ctx, req)
			},
				func(o *pyro.ShellOutput) error {
					if _, err := os.Stdout.WriteString(o.Output); err != nil {
						return err
					}
					if o.Output != "" && !strings.HasSuffix(o.Output, "\n") {
						fmt.Fprintln(os.Stderr)
					}
					shellFooter("read", o.Shell, fmt.Sprintf("cursor=%d next_cursor=%d truncated=%t dropped_bytes=%d", o.Cursor, o.NextCursor, o.Truncated, o.DroppedBytes))
					return nil
				})
		})
	f := cmd.Flags()
	f.Int64Var(&req.Cursor, "cursor", 0, "start of the read: next_cursor of the previous read")
	f.Var(positive(&req.MaxChars, pyro.DefaultMaxChars), "max-chars", "largest number of characters to read")
	f.BoolVar(&req.Plain, "plain", false, "print the text on the screen")
	f.IntVar(&req.WaitForIdleMS, "wait-for-idle-ms", 0, "wait until the shell is silent for this time, in milliseconds")
	return cmd
}

func newShellWrite() *cobra.Command {
	req, noNewline := pyro.WriteShellRequest{}, false
	cmd := onPart("write ID SHELL", "Type into a shell", `Type a text and a newline into a shell. The command does not wait for output. If the program reads
whole lines, pyro refuses a line of more than 4,095 bytes.`,
		"  pyro workspace shell write ws-0123456789ab sh-0123456789ab --input 'cd src && ls'",
		completeShell, func(cmd *cobra.Command, id, shell string) error {
			if !cmd.Flags().Changed("input") {
				return usage(cmd, "--input is missing")
			}
			newline := !noNewline
			req.WorkspaceID, req.ShellID, req.AppendNewline = id, shell, &newline
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.ShellInput, error) {
				return p.WriteShell(ctx, req)
			},
				func(i *pyro.ShellInput) error {
					shellFooter("write", i.Shell, fmt.Sprintf("input_length=%d append_newline=%t", i.InputLength, i.AppendNewline))
					return nil
				})
		})
	cmd.Flags().StringVar(&req.Input, "input", "", "the `TEXT` to type")
	cmd.Flags().BoolVar(&noNewline, "no-newline", false, "add no newline")
	return cmd
}

func newShellSignal() *cobra.Command {
	var req pyro.SignalShellRequest
	cmd := onPart("signal ID SHELL", "Send a signal to the foreground program of a shell", `Send a signal to the foreground program of a shell, as Ctrl-C does. pyro first waits a moment for the
first prompt of the shell, and until the shell has read earlier input. It sends KILL and HUP
immediately. INT, QUIT and TSTP discard input that the program has not read, as their keys do.`,
		"  pyro workspace shell signal ws-0123456789ab sh-0123456789ab --signal TERM",
		completeShell, func(cmd *cobra.Command, id, shell string) error {
			req.WorkspaceID, req.ShellID = id, shell
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.ShellSignal, error) {
				return p.SignalShell(ctx, req)
			}, func(s *pyro.ShellSignal) error {
				shellFooter("signal", s.Shell, "signal="+s.SignalName)
				return nil
			})
		})
	cmd.Flags().StringVar(&req.SignalName, "signal", "INT", "the `SIGNAL`: "+strings.Join(pyro.ShellSignals, ", "))
	return cmd
}

func newShellResize() *cobra.Command {
	var req pyro.ResizeShellRequest
	cmd := onPart("resize ID SHELL", "Change the size of a shell's terminal", "", "  pyro workspace shell resize ws-0123456789ab sh-0123456789ab --cols 200 --rows 50",
		completeShell, func(cmd *cobra.Command, id, shell string) error {
			req.WorkspaceID, req.ShellID = id, shell
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Shell, error) {
				return p.ResizeShell(ctx, req)
			},
				func(s *pyro.Shell) error {
					shellFooter("resize", *s)
					return nil
				})
		})
	cmd.Flags().Var(positive(&req.Cols, pyro.DefaultShellCols), "cols", "columns")
	cmd.Flags().Var(positive(&req.Rows, pyro.DefaultShellRows), "rows", "rows")
	return cmd
}

func newShellClose() *cobra.Command {
	return onPart("close ID SHELL", "End a shell and delete its output", "", "", completeShell, func(cmd *cobra.Command, id, shell string) error {
		return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.ClosedShell, error) {
			return p.CloseShell(ctx, id, shell)
		}, func(s *pyro.ClosedShell) error {
			shellFooter("close", s.Shell)
			return nil
		})
	})
}

func newShellAttach() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "attach ID SHELL", Short: "Open a shell in this terminal",
		Long: `Show a shell of a workspace in your own terminal. pyro prints the shell's last output, sends your
input to the shell, and gives the shell the size of your terminal. Ctrl-] detaches; the shell keeps
running. Other clients can use the shell at the same time.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			detach, err := controlKey(key)
			if err != nil {
				return usage(cmd, "%s", err)
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
				return fault.New(fault.Precondition, "attach to shell", args[1], "standard input and output are not a terminal").
					WithHint("pyro workspace shell read %s %s --plain", args[0], args[1])
			}
			return attach(cmd.Context(), args[0], args[1], detach, key)
		},
	}
	cmd.ValidArgsFunction = newShellClose().ValidArgsFunction
	cmd.Flags().StringVar(&key, "detach-key", "ctrl-]", "detach with this `KEY`: ctrl- and a letter or one of [\\]^_")
	return cmd
}

// controlKey returns the control character for a key such as ctrl-].
func controlKey(name string) (byte, error) {
	char, ok := strings.CutPrefix(strings.ToLower(name), "ctrl-")
	if !ok || len(char) != 1 || !strings.Contains("abcdefghijklmnopqrstuvwxyz[\\]^_", char) {
		return 0, errors.New("--detach-key must be ctrl- and a letter or one of [\\]^_")
	}
	return strings.ToUpper(char)[0] & 0x1f, nil
}

func attach(ctx context.Context, id, shell string, detach byte, key string) error {
	task, err := openTask(ctx)
	if err != nil {
		return err
	}
	defer task.close()
	fmt.Fprintf(os.Stderr, "attached to %s; %s detaches\n", shell, key)
	t := openTerminal()
	defer t.restore()
	t.raw()
	s, err := task.pyro.AttachShell(task.ctx, pyro.AttachShellRequest{
		WorkspaceID: id, ShellID: shell, Stdin: os.Stdin, Stdout: os.Stdout, TTY: t.tty, DetachKey: detach,
	})
	t.restore()
	if err != nil {
		return task.signals.explain(err)
	}
	fmt.Fprintln(os.Stderr)
	shellFooter("attach", *s)
	return nil
}
