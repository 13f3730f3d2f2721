package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// runOptions are the flags of pyro run. Names and defaults are the public contract.
type runOptions struct {
	vcpuCount       int
	memMiB          int
	timeoutSeconds  int
	ttlSeconds      int
	isolation       string
	network         bool
	egressAllow     []string
	egressDeny      []string
	allowHostCompat bool
	json            bool
	tty             bool
	quiet           bool
	env             []string
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run ENV [flags] -- CMD [ARGS]",
		Short: "Run one command in a fresh machine",
		Long: `Start a machine from an environment, run one command in it and remove it.

The command gets its arguments as they are: no shell is added. Its output is passed on as
it comes, and the standard input is passed to it up to its end. Ctrl-C once asks the command
to end, twice kills it. With -t the command has a terminal, Ctrl-C is a key like any other,
and the time limit is that of --ttl-seconds unless --timeout-seconds is given.

Exit code: that of the command;
  124  a time limit was over
  125  pyro itself failed
  126  the command can't be executed
  127  there is no command of that name
  128+n  signal n ended the command`,
		Example: `  pyro run debian:12 -- git --version
  pyro run debian:12 -- sh -c 'echo $((6 * 7))'
  cat words.txt | pyro run debian:12 -- sort -u
  pyro run -t debian:12 -- bash`,
		Args:              runArguments,
		ValidArgsFunction: completeEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json && o.tty {
				return usage(cmd, "--json and --tty exclude each other")
			}
			if o.tty && !cmd.Flags().Changed("timeout-seconds") {
				o.timeoutSeconds = o.ttlSeconds
			}
			return run(cmd.Context(), o, args[0], args[1:])
		},
	}
	machineFlags(cmd, &o.vcpuCount, &o.memMiB, &o.isolation, &o.allowHostCompat)
	f := cmd.Flags()
	f.Var(positive(&o.timeoutSeconds, pyro.DefaultTimeoutSeconds), "timeout-seconds", "kill the command, with all it started, after so many seconds")
	f.Var(positive(&o.ttlSeconds, pyro.DefaultTTLSeconds), "ttl-seconds", "remove the machine after so many seconds, whatever happens")
	f.BoolVar(&o.network, "network", false, "let the machine reach the public Internet, and nothing of this host and of private networks")
	egressFlags(f, &o.egressAllow, &o.egressDeny)
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end, with the output in it")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on stderr but the command's own and errors")
	f.StringArrayVarP(&o.env, "env", "e", nil, "set an environment variable, as `NAME=VALUE` (repeatable)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fault.Newf(fault.Invalid, "%w", err).WithHint(rightForm)
	})
	return cmd
}

const rightForm = "pyro run ENV [flags] -- CMD [ARGS], such as: pyro run debian:12 -- uname -a"

// runArguments tells how to say it right, for every way to say it wrong.
func runArguments(cmd *cobra.Command, args []string) error {
	wrong := func(format string, a ...any) error {
		return fault.Newf(fault.Invalid, format, a...).WithHint(rightForm)
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return wrong("missing argument ENV")
	case dash < 0 && len(args) == 1, dash == len(args):
		return wrong("missing argument CMD")
	case dash < 0:
		return fault.Newf(fault.Invalid, "put -- before the command").WithHint("pyro run %s -- %s", args[0], strings.Join(args[1:], " "))
	case dash > 1:
		return wrong("%q does not belong before the --: one environment and flags do", args[1])
	}
	return nil
}

func run(ctx context.Context, o runOptions, environment string, argv []string) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	env, err := parseEnv(o.env)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, o.quiet)
	defer signals.stop()
	progress := newProgress(o.quiet)
	defer progress.stop()

	req := pyro.RunInVMRequest{
		Environment: environment, Argv: argv, Env: env,
		VCPUCount: o.vcpuCount, MemMiB: o.memMiB, TimeoutSeconds: o.timeoutSeconds, TTLSeconds: o.ttlSeconds,
		Isolation: pyro.Isolation(o.isolation), Network: o.network, EgressAllow: o.egressAllow, EgressDeny: o.egressDeny, AllowHostCompat: o.allowHostCompat,
		Stdin: standardInput(), Signals: signals.forwarded, Progress: progress.report,
	}
	stderr := &lineStart{Writer: os.Stderr, at: true}
	if !o.json {
		req.Stdout, req.Stderr = os.Stdout, stderr
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
			fmt.Fprintln(os.Stderr, "pyro: note: the processor is emulated, ten times slower than it could be:", start.EmulatedReason)
		}
		if start.UnlimitedReason != "" && !o.quiet {
			fmt.Fprintln(os.Stderr, "pyro: note: --vcpu-count and --mem-mib do not bind:", start.UnlimitedReason)
		}
		if terminal != nil {
			terminal.raw()
		}
	}
	result, err := p.RunInVM(ctx, req)
	if terminal != nil {
		terminal.restore()
		stderr.at = false // whatever the command left on the terminal, the footer begins its own line
	}
	progress.stop()
	if err != nil {
		return signals.explain(err)
	}
	for _, step := range result.Timings {
		slog.Debug("start", "step", step.Name, "ms", step.MS)
	}
	slog.Debug("run", "start_ms", result.StartMS, "command_ms", result.DurationMS, "total_ms", result.TotalMS)
	return finish(o.json, result, result.ExitCode, stderr, func() { o.explain(result) })
}

// finish says of a command what is left to be said, as JSON or by explaining it, and gives its exit code.
func finish(asJSON bool, result any, code int, stderr *lineStart, explain func()) error {
	if asJSON {
		if err := printJSON(os.Stdout, result); err != nil {
			return err
		}
	} else {
		if !stderr.at && term.IsTerminal(int(os.Stderr.Fd())) {
			fmt.Fprintln(stderr)
		}
		explain()
	}
	if code == 0 {
		return nil
	}
	return exit{code: code}
}

// explain says on stderr what the exit code alone does not tell.
func (o runOptions) explain(r *pyro.RunResult) {
	switch {
	case r.TimeLimit == "ttl_seconds":
		complain(fmt.Sprintf("the time to live of the machine, %d s, is over", o.ttlSeconds), "--ttl-seconds gives it longer")
	case r.TimedOut:
		complain(fmt.Sprintf("the command timed out after %d s", o.timeoutSeconds), "--timeout-seconds gives it longer")
	case r.NotRun != "":
		complain(r.NotRun, "")
	}
	if r.OutOfMemory {
		complain(fmt.Sprintf("the machine ran out of its %d MiB of memory", o.memMiB), "--mem-mib gives it more")
	}
	if o.quiet {
		return
	}
	fmt.Fprintf(os.Stderr, "[run] environment=%s isolation=%s exit_code=%d start=%.2fs total=%.2fs\n",
		r.Environment, r.Isolation, r.ExitCode, r.StartMS/1000, r.TotalMS/1000)
}

// parseEnv reads pairs of NAME=VALUE.
func parseEnv(pairs []string) (map[string]string, error) {
	env := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fault.Newf(fault.Invalid, "%q is not NAME=VALUE", pair).WithHint("pyro run -e NAME=VALUE ENV -- CMD")
		}
		env[name] = value
	}
	return env, nil
}
