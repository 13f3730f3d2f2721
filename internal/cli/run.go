package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// runOptions contains the flags of pyro run. Their names and defaults are part of the public
// contract.
type runOptions struct {
	vcpuCount       int
	memMiB          int
	timeoutSeconds  int
	ttlSeconds      int
	isolation       string
	network         bool
	egressAllow     []string
	egressDeny      []string
	hostNetwork     bool
	hostCredentials []string
	allowHostCompat bool
	json            bool
	tty             bool
	quiet           bool
	programFlags
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run ENV [flags] [-- CMD [ARGS]]",
		Short: "Run one command in a fresh machine",
		Long: `Start a machine, run one command in it and remove the machine.

No shell interprets the arguments. Standard input and output pass through. Press Ctrl-C once to
ask the command to end, and twice to kill it. With -t the command has a terminal and receives
Ctrl-C as a key. Without --timeout-seconds, only --ttl-seconds limits the command.

Without CMD, an image's own command runs: its ENTRYPOINT followed by its CMD. With CMD, both do not
apply.

The exit code is the command's, or:

  124    a time limit ended the command
  125    pyro itself failed
  126    the command cannot be executed
  127    the command does not exist
  128+n  signal n ended the command`,
		Example: `  pyro run debian:12 -- git --version
  pyro run debian:12 -- sh -c 'echo $((6 * 7))'
  cat words.txt | pyro run debian:12 -- sort -u
  pyro run -t debian:12 -- bash`,
		Args:              programAfter(rightForm, true, "ENV"),
		ValidArgsFunction: completeEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json && o.tty {
				return usage(cmd, "--json and --tty exclude each other")
			}
			if o.timeoutSeconds == 0 {
				o.timeoutSeconds = pyro.MaxSeconds
			}
			return run(cmd.Context(), o, args[0], args[1:])
		},
	}
	machineFlags(cmd, &o.vcpuCount, &o.memMiB, &o.isolation, &o.allowHostCompat)
	f := cmd.Flags()
	f.Var(positive(&o.timeoutSeconds, 0), "timeout-seconds", "time limit of the command and its processes, in seconds (default none)")
	f.Var(positive(&o.ttlSeconds, pyro.DefaultTTLSeconds), "ttl-seconds", "time limit of the machine, in seconds")
	f.BoolVar(&o.network, "network", false, "let the machine reach the public Internet, but not this host and private networks")
	egressFlags(f, &o.egressAllow, &o.egressDeny)
	hostNetworkFlags(f, &o.hostNetwork, &o.hostCredentials)
	f.BoolVar(&o.json, "json", false, "print one JSON object with the output at the end")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the command's stderr and errors on stderr")
	o.flags(f, "the image's")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fault.Newf(fault.Invalid, "%w", err).WithHint(rightForm)
	})
	return cmd
}

const rightForm = "pyro run ENV [flags] -- CMD [ARGS], such as: pyro run debian:12 -- uname -a"

func run(ctx context.Context, o runOptions, environment string, argv []string) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	env, _, err := o.programFlags.parse()
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, o.quiet)
	defer signals.stop()
	progress := newProgress(o.quiet)
	defer progress.stop()

	req := pyro.RunInVMRequest{
		Environment: environment, Argv: argv, Env: env, User: o.user, Cwd: o.cwd,
		VCPUCount: o.vcpuCount, MemMiB: o.memMiB, TimeoutSeconds: o.timeoutSeconds, TTLSeconds: o.ttlSeconds,
		Isolation: pyro.Isolation(o.isolation), Network: o.network, EgressAllow: o.egressAllow, EgressDeny: o.egressDeny, AllowHostCompat: o.allowHostCompat,
		HostNetworkSettings: o.hostNetwork, HostNetworkCredentials: o.hostCredentials,
		Stdin: standardInput(), Signals: signals.forwarded, Progress: progress.report,
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
	}
	req.OnStart = func(start pyro.RunStart) {
		progress.stop()
		if start.Isolation == pyro.IsolationNone && !o.quiet {
			fmt.Fprintln(os.Stderr, "pyro: warning: host_compat: nothing isolates this command from the host:", start.HostCompatReason)
		}
		if start.EmulatedReason != "" && !o.quiet {
			fmt.Fprintln(os.Stderr, "pyro: note: the processor is emulated and at least ten times slower:", start.EmulatedReason)
		}
		if start.UnlimitedReason != "" && !o.quiet {
			fmt.Fprintln(os.Stderr, "pyro: note: --vcpu-count and --mem-mib are not enforced:", start.UnlimitedReason)
		}
		if terminal != nil {
			terminal.raw()
		}
	}
	result, err := p.RunInVM(ctx, req)
	if terminal != nil {
		terminal.restore()
		stderr.at = out.at
	}
	progress.stop()
	if errors.Is(err, pyro.ErrNoCommand) {
		return fault.Newf(fault.Invalid, "missing argument CMD").WithHint("%s", cmp.Or(pyro.HintOf(err), rightForm))
	}
	if err != nil {
		return signals.explain(err)
	}
	for _, step := range result.Timings {
		slog.Debug("start", "step", step.Name, "ms", step.MS)
	}
	slog.Debug("run", "start_ms", result.StartMS, "command_ms", result.DurationMS, "total_ms", result.TotalMS)
	return finish(o.json, result, result.ExitCode, stderr, func(w io.Writer) { o.explain(w, result) })
}

// finish prints the result of a command as JSON. If asJSON is false, it calls explain instead. If
// explain prints a text, the text begins on a new line. finish returns the exit code of the command
// as an error.
func finish(asJSON bool, result any, code int, stderr *lineStart, explain func(io.Writer)) error {
	if asJSON {
		if err := printJSON(os.Stdout, result); err != nil {
			return err
		}
	} else if stderr.at {
		explain(stderr)
	} else {
		var notes bytes.Buffer
		explain(&notes)
		if notes.Len() > 0 && !stderr.at && term.IsTerminal(int(os.Stderr.Fd())) {
			fmt.Fprintln(stderr)
		}
		stderr.Write(notes.Bytes())
	}
	if code == 0 {
		return nil
	}
	return exit{code: code}
}

// explain prints facts that the exit code does not show.
func (o runOptions) explain(w io.Writer, r *pyro.RunResult) {
	switch {
	case r.TimeLimit == "ttl_seconds":
		fprintError(w, fmt.Sprintf("the machine's time to live of %d s is over", o.ttlSeconds), "use a larger --ttl-seconds")
	case r.TimedOut:
		fprintError(w, fmt.Sprintf("the command timed out after %d s", o.timeoutSeconds), "use a larger --timeout-seconds")
	case r.NotRun != "":
		fprintError(w, r.NotRun, "")
	}
	if r.OutOfMemory {
		fprintError(w, fmt.Sprintf("the machine ran out of its %d MiB of memory", o.memMiB), "use a larger --mem-mib")
	}
	if o.quiet {
		return
	}
	explainRefusals(w, r.CommandResult, "--egress-allow NAME allows a target; --host-network-settings allows the package registries of this host")
	fmt.Fprintf(w, "[run] environment=%s isolation=%s exit_code=%d start=%.2fs total=%.2fs\n",
		r.Environment, r.Isolation, r.ExitCode, r.StartMS/1000, r.TotalMS/1000)
}
