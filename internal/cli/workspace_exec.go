package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

// workspaceExecOptions contains the flags of pyro workspace exec.
type workspaceExecOptions struct {
	timeoutSeconds int
	json           bool
	tty            bool
	detach         bool
	quiet          bool
	programFlags
}

func newWorkspaceExec() *cobra.Command {
	var o workspaceExecOptions
	cmd := &cobra.Command{
		Use:   "exec ID [flags] -- CMD [ARGS]",
		Short: "Run a command in a workspace",
		Long: `Run a command in /workspace. No shell interprets the arguments. Standard input and output pass
through. Press Ctrl-C once to ask the command to end, and twice to kill it. If pyro is killed, the
command ends too. The command and its output stay in the history: see pyro workspace logs.

The command does not change files of the host. To bring its changes back into your project, use
pyro workspace sync pull.

With --detach, the command runs in the background without input. pyro prints the command's number
in the history and returns. The command continues until it ends, until its time limit, or until its
workspace is stopped, reset or deleted. It pauses and resumes with its workspace.

The exit code is the command's, or 124 to 127 and 128+n as in pyro run.`,
		Example: `  pyro workspace exec ws-0123456789ab -- make test
  pyro workspace exec ws-0123456789ab --timeout-seconds 600 -- sh -c 'npm ci && npm test'
  pyro workspace exec -t ws-0123456789ab -- bash
  n=$(pyro workspace exec --detach -q ws-0123456789ab -- make)
  pyro workspace logs ws-0123456789ab $n -f
  pyro workspace wait ws-0123456789ab $n`,
		Args:              commandAfter("pyro workspace exec ID [flags] -- CMD [ARGS], such as: pyro workspace exec ws-0123456789ab -- ls -l", "ID"),
		ValidArgsFunction: completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json && o.tty {
				return usage(cmd, "--json and --tty exclude each other")
			}
			if o.detach && o.tty {
				return usage(cmd, "--detach and --tty exclude each other")
			}
			if o.detach {
				return o.start(cmd, args[0], args[1:])
			}
			return o.run(cmd.Context(), args[0], args[1:])
		},
	}
	f := cmd.Flags()
	f.Var(positive(&o.timeoutSeconds, 0), "timeout-seconds", "time limit of the command and its processes, in seconds (default none)")
	o.workspaceFlags(f)
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal")
	f.BoolVarP(&o.detach, "detach", "d", false, "run the command in the background, and print its number")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the command's stderr and errors on stderr")
	f.BoolVar(&o.json, "json", false, "print one JSON object with the output at the end")
	return cmd
}

func (o workspaceExecOptions) run(ctx context.Context, id string, argv []string) error {
	options := pyro.Options{PortChanged: showPortChange}
	if o.quiet {
		options.PortChanged = nil
	}
	p, err := pyro.New(options)
	if err != nil {
		return err
	}
	defer p.Close()
	env, secretEnv, err := o.programFlags.parse()
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, o.quiet)
	defer signals.stop()
	req := pyro.ExecWorkspaceRequest{
		WorkspaceID: id, Argv: argv, Env: env, SecretEnv: secretEnv, User: o.user, Cwd: o.cwd, TimeoutSeconds: o.timeoutSeconds, Unlimited: true, Stdin: standardInput(), Signals: signals.forwarded,
	}
	out, stderr := &lineStart{Writer: os.Stdout, at: true}, &lineStart{Writer: os.Stderr, at: true}
	if !o.json {
		req.Stdout, req.Stderr, req.StreamOnly = out, stderr, true
	}
	var terminal *terminal
	if o.tty {
		terminal = openTerminal()
		defer terminal.restore()
		req.TTY = terminal.tty
		terminal.raw()
	}
	result, err := p.ExecWorkspace(ctx, req)
	if terminal != nil {
		terminal.restore()
		stderr.at = out.at
	}
	if err != nil {
		return signals.explain(err)
	}
	return finish(o.json, result, result.ExitCode, stderr, func(w io.Writer) { o.explain(w, result) })
}

// explain prints facts that the exit code does not show.
func (o workspaceExecOptions) explain(w io.Writer, r *pyro.WorkspaceExecResult) {
	switch {
	case r.TimedOut:
		fprintError(w, fmt.Sprintf("the command timed out after %d s", o.timeoutSeconds), "use a larger --timeout-seconds")
	case r.NotRun != "":
		fprintError(w, r.NotRun, "")
	}
	if r.OutOfMemory {
		fprintError(w, "the machine ran out of memory", fmt.Sprintf("pyro workspace update %[1]s --mem-mib N && pyro workspace stop %[1]s && pyro workspace start %[1]s", r.WorkspaceID))
	}
	if r.HistoryError != "" {
		fmt.Fprintln(w, "pyro: warning: the command ran, but its history could not be written:", r.HistoryError)
		if r.HistoryErrorKind == pyro.Exhausted {
			fmt.Fprintf(w, "pyro: hint: free space: pyro env prune, pyro workspace delete ID, or pyro workspace exec %s -- rm FILE\n", r.WorkspaceID)
		}
	}
	if !o.quiet {
		explainRefusals(w, r.CommandResult, "pyro workspace network log "+r.WorkspaceID)
		fmt.Fprintf(w, "[workspace-exec] workspace_id=%s sequence=%d cwd=%s execution_mode=%s exit_code=%d duration_ms=%.0f\n",
			r.WorkspaceID, r.Sequence, r.Cwd, r.ExecutionMode, r.ExitCode, r.DurationMS)
	}
}
