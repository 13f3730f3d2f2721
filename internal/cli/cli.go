// Package cli is the command pyro: it parses, calls package pyro, and prints.
//
// # Rules of the terminal
//
// Results go to the standard output and everything else to the standard error. An error is one line, "pyro: error: …", and one more for what mends it,
// "pyro: hint: …". With --json the standard output carries exactly one JSON value, be it an error. Progress is told only for what takes over a second.
// Nothing asks questions. Every command exits with a code of the table in internal/fault, but `pyro run` and
// `pyro workspace exec` with that of the command they ran.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Main runs pyro with arguments and gives the exit code.
func Main(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	var end exit
	if errors.As(err, &end) {
		if end.err != nil {
			report(cmd, end.err)
		}
		return end.code
	}
	report(cmd, err)
	if path := cmd.CommandPath(); path == "pyro run" || path == "pyro workspace exec" {
		return fault.ExitFailure
	}
	return fault.ExitCode(err)
}

// exit ends a command with an exit code of its own choice, and without a word where err is nil.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// report prints an error in the form that the command's flags ask for.
func report(cmd *cobra.Command, err error) {
	if wantsJSON(cmd) {
		if printJSON(os.Stdout, map[string]fault.Report{"error": fault.ReportOf(err)}) == nil {
			return
		}
	}
	complain(err.Error(), pyro.HintOf(err))
}

// complain prints an error, and what mends it.
func complain(message, hint string) {
	fmt.Fprintln(os.Stderr, "pyro: error:", message)
	if hint != "" {
		fmt.Fprintln(os.Stderr, "pyro: hint:", hint)
	}
}

func newRoot() *cobra.Command {
	var debug bool
	root := &cobra.Command{
		Use:   "pyro",
		Short: "Give an AI agent its own computer",
		Long: `pyro gives an AI agent its own computer on any Linux machine, in a fraction of a
second: a virtual machine where there is hardware virtualisation, and where there is none
gVisor, at the processor's own speed, or a virtual machine that is emulated.

First steps:
  pyro doctor                     what this host can do, and what mends what it can't
  pyro demo                       a tour on a real machine, in a few seconds
  pyro prepare                    make ready what machines start from, which takes a minute or
                                  two; the first run does it too
  pyro run debian:12 -- uname -a  run a command in a fresh machine
  pyro workspace create debian:12 make a machine that persists: see pyro workspace --help
  pyro mcp serve --profile workspace-core
                                  give an agent these as tools: see pyro mcp --help
  pyro host connect claude-code   have Claude Code start it: see pyro host --help
  pyro env list                   the environments that machines start from`,
		Example: `  pyro run debian:12 -- python3 -c 'print(6 * 7)'
  git diff | pyro run debian:12 -- wc -l
  pyro run -t alpine:3.20 -- sh`,
		Version:                    pyro.Version(),
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		PersistentPreRun: func(*cobra.Command, []string) {
			level := slog.LevelError + 1
			if debug || os.Getenv("PYRO_DEBUG") != "" {
				level = slog.LevelDebug
			}
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
		},
		RunE: group,
	}
	root.SetOut(os.Stdout)
	root.SetErr(os.Stderr)
	root.SetVersionTemplate("pyro {{.Version}}\n")
	root.SetUsageTemplate(root.UsageTemplate() + exitCodes)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%w", err) })
	root.PersistentFlags().BoolVar(&debug, "debug", false, "log to stderr what is being done (also PYRO_DEBUG=1)")
	root.AddCommand(newRun(), newWorkspace(), newEnv(), newMCP(), newHost(), newRPC(), newPrepare(), newDoctor(), newPTY(), newDemo(), newVersion())
	return root
}

// exitCodes ends the help of pyro itself.
const exitCodes = `{{if not .HasParent}}
Exit codes:
  0 done                  5 wrong state              10 stored data corrupt
  1 anything else         6 permission denied       124 time limit over
  2 bad usage, argument   7 out of space or quota   130 interrupted
  3 not found             8 not supported
  4 exists already        9 something is missing
  pyro run and pyro workspace exec exit with the code of the command: see their help.
{{end}}`

// usage is an error about how a command was called.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return fault.Newf(fault.Invalid, format, args...).WithHint("%s --help", cmd.CommandPath())
}

// arguments checks how many arguments there are by the use of a command: NAME has to be there, [NAME]
// may be, and a name with dots stands for any number.
func arguments(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	for i, name := range names {
		switch {
		case strings.HasSuffix(strings.TrimSuffix(name, "]"), "..."):
			if len(args) > i || strings.HasPrefix(name, "[") {
				return nil
			}
			return usage(cmd, "missing argument %s", strings.TrimSuffix(name, "..."))
		case len(args) <= i && !strings.HasPrefix(name, "["):
			return usage(cmd, "missing argument %s", name)
		}
	}
	if len(args) > len(names) {
		return usage(cmd, "unexpected argument %q", args[len(names)])
	}
	return nil
}

// subcommand is the check of a command that only groups others: whatever is left is not one of them.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if meant := elsewhere(cmd, args[0]); meant != "" {
		return fault.Newf(fault.Invalid, "unknown command %q for %q: did you mean `%s`?", args[0], cmd.CommandPath(), meant).WithHint("%s --help", meant)
	}
	err := fault.Newf(fault.Invalid, "unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return err.WithHint("%s %s", cmd.CommandPath(), near[0])
	}
	return err.WithHint("%s --help", cmd.CommandPath())
}

// group shows the help of a command that only groups others.
func group(cmd *cobra.Command, _ []string) error { return cmd.Help() }
