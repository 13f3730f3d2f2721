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

// workspaceExecOptions are the flags of pyro workspace exec.
type workspaceExecOptions struct {
	timeoutSeconds int
	cwd            string
	json           bool
	tty            bool
	quiet          bool
	env            []string
	secretEnv      []string
}

func newWorkspaceExec() *cobra.Command {
	var o workspaceExecOptions
	cmd := &cobra.Command{
		Use:   "exec ID [flags] -- CMD [ARGS]",
		Short: "Run a command in a workspace",
		Long: `Run a command in a workspace, in /workspace. The command gets its arguments as they are: no
shell is added. Its output is passed on as it comes, and the standard input is passed to it
up to its end. Ctrl-C once asks the command to end, twice kills it. The command is kept in
the workspace's history, see pyro workspace logs.

Exit code: that of the command, and 124 to 127 and 128+n as for pyro run.`,
		Example: `  pyro workspace exec ws-0123456789ab -- make test
  pyro workspace exec ws-0123456789ab --timeout-seconds 600 -- sh -c 'npm ci && npm test'
  pyro workspace exec -t ws-0123456789ab -- bash`,
		Args:              workspaceExecArguments,
		ValidArgsFunction: completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json && o.tty {
				return usage(cmd, "--json and --tty exclude each other")
			}
			if o.tty && !cmd.Flags().Changed("timeout-seconds") {
				o.timeoutSeconds = pyro.MaxSeconds
			}
			return o.run(cmd.Context(), args[0], args[1:])
		},
	}
	f := cmd.Flags()
	f.Var(positive(&o.timeoutSeconds, pyro.DefaultTimeoutSeconds), "timeout-seconds", "kill the command, with all it started, after so many seconds")
	f.StringVar(&o.cwd, "cwd", "", "run it in this `FOLDER` instead of /workspace")
	f.StringArrayVarP(&o.env, "env", "e", nil, "set an environment variable, as `NAME=VALUE` (repeatable)")
	secretEnvFlag(f, &o.secretEnv)
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on stderr but the command's own and errors")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end, with the output in it")
	return cmd
}

// workspaceExecArguments tells how to say it right.
func workspaceExecArguments(cmd *cobra.Command, args []string) error {
	const form = "pyro workspace exec ID [flags] -- CMD [ARGS], such as: pyro workspace exec ws-0123456789ab -- ls -l"
	wrong := func(format string, a ...any) error {
		return fault.Newf(fault.Invalid, format, a...).WithHint(form)
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return wrong("missing argument ID")
	case dash < 0 && len(args) == 1, dash == len(args):
		return wrong("missing argument CMD")
	case dash < 0:
		return fault.Newf(fault.Invalid, "put -- before the command").WithHint("pyro workspace exec %s -- %s", args[0], strings.Join(args[1:], " "))
	case dash > 1:
		return wrong("%q does not belong before the --: one id and flags do", args[1])
	}
	return nil
}

func (o workspaceExecOptions) run(ctx context.Context, id string, argv []string) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	env, err := parsePairs("--env", o.env)
	if err != nil {
		return err
	}
	secretEnv, err := parseSecretEnv(o.secretEnv)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, o.quiet)
	defer signals.stop()
	req := pyro.ExecWorkspaceRequest{
		WorkspaceID: id, Argv: argv, Env: env, SecretEnv: secretEnv, Cwd: o.cwd, TimeoutSeconds: o.timeoutSeconds, Stdin: standardInput(), Signals: signals.forwarded,
	}
	stderr := &lineStart{Writer: os.Stderr, at: true}
	if !o.json {
		req.Stdout, req.Stderr = os.Stdout, stderr
	}
	if o.tty {
		terminal := openTerminal()
		defer terminal.restore()
		req.TTY = terminal.tty
		terminal.raw()
	}
	result, err := p.ExecWorkspace(ctx, req)
	if req.TTY != nil {
		stderr.at = false
	}
	if err != nil {
		return signals.explain(err)
	}
	return finish(o.json, result, result.ExitCode, stderr, func() { o.explain(result) })
}

// explain says on stderr what the exit code alone does not tell.
func (o workspaceExecOptions) explain(r *pyro.WorkspaceExecResult) {
	switch {
	case r.TimedOut:
		complain(fmt.Sprintf("the command timed out after %d s", o.timeoutSeconds), "--timeout-seconds gives it longer")
	case r.NotRun != "":
		complain(r.NotRun, "")
	}
	if r.OutOfMemory {
		complain("the machine ran out of memory", "pyro workspace create --mem-mib gives a workspace more")
	}
	if r.HistoryError != "" {
		fmt.Fprintln(os.Stderr, "pyro: warning: the command ran, but its history could not be written:", r.HistoryError)
		if strings.Contains(r.HistoryError, "disk is full") {
			fmt.Fprintf(os.Stderr, "pyro: hint: free space: pyro env prune, pyro workspace delete ID, or pyro workspace exec %s -- rm FILE\n", r.WorkspaceID)
		}
	}
	if !o.quiet {
		fmt.Fprintf(os.Stderr, "[workspace-exec] workspace_id=%s sequence=%d cwd=%s execution_mode=%s exit_code=%d duration_ms=%.0f\n",
			r.WorkspaceID, r.Sequence, r.Cwd, r.ExecutionMode, r.ExitCode, r.DurationMS)
	}
}

func newWorkspaceLogs() *cobra.Command {
	var follow bool
	cmd := onWorkspace("logs ID", "Show the commands that were run in a workspace",
		`Show the commands that were run in a workspace since it was created or last reset, with their output.

With --follow each further command is shown, with its output, when it has ended. A command that
runs at first is shown again at its end. Following ends when the workspace is stopped, paused,
reset or deleted (exit code 0, with a note on stderr), or at Ctrl-C. It does not use the
workspace: it neither resumes a paused one, nor keeps one from being paused.`,
		`  pyro workspace logs ws-0123456789ab
  pyro workspace logs ws-0123456789ab --follow`,
		func(cmd *cobra.Command, args []string) error {
			if follow {
				return followLogs(cmd, args[0])
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.WorkspaceLogs, error) {
				return p.LogsWorkspace(ctx, args[0])
			}, showLogs)
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then show each command when it has ended (not with --json)")
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

// showEntry prints a command of the history with its output.
func showEntry(c pyro.CommandEntry) error {
	how := "runs, or its machine ended before it did"
	switch {
	case c.Broken != "":
		how = "did not come to its end: " + c.Broken
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

// indented prints what a command said, safe for a terminal.
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
