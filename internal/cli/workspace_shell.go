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
	cmd := subgroup("shell", "Terminals in a workspace that go on between commands",
		newShellOpen(), newShellList(), newShellRead(), newShellWrite(), newShellSignal(), newShellResize(), newShellAttach(), newShellClose())
	cmd.Long = `A shell is a program on a terminal of its own, that goes on when pyro ends: what it prints is
kept to be read by cursor, and anybody may type into it.

Use exec for a command that comes to its end: its output and exit code are known, and it is
kept in the history. Use a shell for what must last between commands: a working directory and
variables, a program that asks questions, a debugger, an editor. Shells end when they are
closed, and when the workspace is stopped, reset or deleted.

  id=$(pyro workspace shell open WORKSPACE --id-only)
  pyro workspace shell write WORKSPACE $id --input 'make test'
  pyro workspace shell read WORKSPACE $id --plain --wait-for-idle-ms 300
  pyro workspace shell attach WORKSPACE $id`
	return cmd
}

// shellFooter says on stderr what became of a shell.
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
	var env, secrets []string
	var idOnly bool
	cmd := onWorkspace("open ID", "Open a shell",
		"Open a shell: bash where the environment has it, else sh. It prints the shell's id.", "  pyro workspace shell open ws-0123456789ab --cwd src",
		func(cmd *cobra.Command, args []string) (err error) {
			if wantsJSON(cmd) && idOnly {
				return usage(cmd, "--json and --id-only exclude each other")
			}
			req.WorkspaceID = args[0]
			if req.Env, err = parsePairs("--env", env); err != nil {
				return err
			}
			if req.SecretEnv, err = parseSecretEnv(secrets); err != nil {
				return err
			}
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
	f.StringVar(&req.Cwd, "cwd", "", "open it in this `FOLDER` instead of /workspace")
	f.Var(positive(&req.Cols, pyro.DefaultShellCols), "cols", "columns of its terminal")
	f.Var(positive(&req.Rows, pyro.DefaultShellRows), "rows", "rows of its terminal")
	f.StringArrayVarP(&env, "env", "e", nil, "set an environment variable, as `NAME=VALUE` (repeatable)")
	secretEnvFlag(f, &secrets)
	f.BoolVar(&idOnly, "id-only", false, "print nothing but the shell's id")
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
	cmd := onPart("read ID SHELL", "Print what a shell has printed",
		`Print what a shell has printed from a cursor on; the next cursor is told on stderr. Whoever
comes back with it sees nothing twice. --plain prints the text that a person would see,
without colours and what was overwritten. With --wait-for-idle-ms it waits until the shell
has been quiet for so long, which is when a command is likely to be done. A shell that was just
opened, or typed into, is not quiet before it has printed something, or 5 seconds are over
(15 after opening).`,
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
	f.Int64Var(&req.Cursor, "cursor", 0, "where to begin: the next_cursor of the read before")
	f.Var(positive(&req.MaxChars, pyro.DefaultMaxChars), "max-chars", "read at most so many characters")
	f.BoolVar(&req.Plain, "plain", false, "print the text that a person would see")
	f.IntVar(&req.WaitForIdleMS, "wait-for-idle-ms", 0, "wait until nothing was printed for so many milliseconds")
	return cmd
}

func newShellWrite() *cobra.Command {
	req, noNewline := pyro.WriteShellRequest{}, false
	cmd := onPart("write ID SHELL", "Type into a shell", "Type a text into a shell, and a newline after it. It does not wait for what comes of it.",
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
	cmd := onPart("signal ID SHELL", "Send a signal to what runs in a shell", `Send a signal to what runs in the foreground of a shell, as Ctrl-C does. It is sent when the
shell has printed its first prompt and has read what was typed before; KILL and HUP at once.`,
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
	cmd := onPart("resize ID SHELL", "Give a shell's terminal another size", "", "  pyro workspace shell resize ws-0123456789ab sh-0123456789ab --cols 200 --rows 50",
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
	return onPart("close ID SHELL", "End a shell, and forget what it printed", "", "", completeShell, func(cmd *cobra.Command, id, shell string) error {
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
		Use: "attach ID SHELL", Short: "Take a shell in this terminal",
		Long: `Take a shell in this terminal: what it printed last is printed again, and what is typed goes
to it. Its terminal gets the size of this one. Ctrl-] leaves it; it goes on. Others may read
it and write to it meanwhile.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			detach, err := controlKey(key)
			if err != nil {
				return usage(cmd, "%s", err)
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
				return fault.New(fault.Precondition, "attach to shell", args[1], "the standard input and output are no terminal").
					WithHint("pyro workspace shell read %s %s --plain", args[0], args[1])
			}
			return attach(cmd.Context(), args[0], args[1], detach, key)
		},
	}
	cmd.ValidArgsFunction = newShellClose().ValidArgsFunction
	cmd.Flags().StringVar(&key, "detach-key", "ctrl-]", "the `KEY` that leaves it: ctrl- and a letter or one of [\\]^_")
	return cmd
}

// controlKey gives the character that a key such as ctrl-] types.
func controlKey(name string) (byte, error) {
	char, ok := strings.CutPrefix(strings.ToLower(name), "ctrl-")
	if !ok || len(char) != 1 || !strings.Contains("abcdefghijklmnopqrstuvwxyz[\\]^_", char) {
		return 0, errors.New("--detach-key must be ctrl- and a letter or one of [\\]^_")
	}
	return strings.ToUpper(char)[0] & 0x1f, nil
}

func attach(ctx context.Context, id, shell string, detach byte, key string) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	fmt.Fprintf(os.Stderr, "attached to %s; %s leaves it\n", shell, key)
	t := openTerminal()
	defer t.restore()
	t.raw()
	s, err := p.AttachShell(ctx, pyro.AttachShellRequest{
		WorkspaceID: id, ShellID: shell, Stdin: os.Stdin, Stdout: os.Stdout, TTY: t.tty, DetachKey: detach,
	})
	t.restore()
	if err != nil {
		return signals.explain(err)
	}
	fmt.Fprintln(os.Stderr)
	shellFooter("attach", *s)
	return nil
}
