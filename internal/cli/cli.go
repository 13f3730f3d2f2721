// Package cli implements the command pyro. It parses arguments, calls package pyro and prints
// results.
//
// # Output
//
// Results go to standard output and everything else goes to standard error. An error is one line
// that begins with "pyro: error:". A line that begins with "pyro: hint:" can follow. With --json,
// standard output contains exactly one JSON value, even if the command fails. Progress is shown
// only for work that takes more than a second. No command asks questions.
//
// Package internal/fault defines the exit codes. Only `pyro run` and `pyro workspace exec` exit
// with the code of the command that they ran.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Main runs pyro with the given arguments and returns the exit code.
func Main(args []string) int {
	program.CatchIgnored()
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	if errors.Is(err, syscall.EPIPE) {
		return 128 + int(syscall.SIGPIPE) // the reader of the output has ended, as in `pyro … | head`
	}
	var end exit
	if errors.As(err, &end) {
		if end.err != nil {
			report(cmd, end.err)
		}
		return end.code
	}
	report(cmd, err)
	if path := cmd.CommandPath(); path == "pyro run" || path == "pyro workspace exec" || path == "pyro workspace wait" {
		return fault.ExitFailure
	}
	return fault.ExitCode(err)
}

// exit is an error that sets the exit code of pyro. If err is nil, pyro prints no error.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// report prints an error as text. If the command has --json, it prints JSON.
func report(cmd *cobra.Command, err error) {
	if wantsJSON(cmd) {
		if printJSON(os.Stdout, map[string]fault.Report{"error": fault.ReportOf(err)}) == nil {
			return
		}
	}
	printError(err.Error(), pyro.HintOf(err))
}

// printError prints an error message and its hint.
func printError(message, hint string) { fprintError(os.Stderr, message, hint) }

func fprintError(w io.Writer, message, hint string) {
	fmt.Fprintln(w, "pyro: error:", message)
	if hint != "" {
		fmt.Fprintln(w, "pyro: hint:", hint)
	}
}

func newRoot() *cobra.Command {
	var debug bool
	root := &cobra.Command{
		Use:   "pyro",
		Short: "Give an AI agent its own computer",
		Long: `pyro gives an AI agent its own Linux machine, which starts in a fraction of a second. Depending on
the host, the machine is a virtual machine, a gVisor sandbox or an emulated machine.

First steps:
  pyro doctor                     check this host and show how to fix problems
  pyro demo                       take a tour on a real machine, in a few seconds
  pyro prepare                    prepare fast starts; takes a minute or two
  pyro run debian:12 -- uname -a  run a command in a new machine
  pyro workspace create debian:12 create a persistent machine: see pyro workspace --help
  pyro mcp serve --profile workspace-core
                                  offer tools to an agent: see pyro mcp --help
  pyro host connect claude-code   connect Claude Code: see pyro host --help
  pyro env list                   list the environments`,
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
	root.PersistentFlags().BoolVar(&debug, "debug", false, "write a debug log to stderr (also PYRO_DEBUG=1)")
	root.AddCommand(newRun(), newWorkspace(), newEnv(), newMCP(), newHost(), newRPC(), newServe(), newPrepare(), newDoctor(), newPTY(), newDemo(), newVersion())
	return root
}

// exitCodes is a template that extends the help of the root command.
const exitCodes = `{{if not .HasParent}}
Exit codes:
  0 success               5 wrong state              10 stored data corrupt
  1 other error           6 permission denied       124 time limit exceeded
  2 bad usage, argument   7 out of space or quota   130 interrupted
  3 not found             8 not supported
  4 already exists        9 a requirement is missing
  pyro run, pyro workspace exec and pyro workspace wait exit with the code of the command: see
  their help.
{{end}}`

// usage returns an error that reports wrong usage of a command.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return fault.Newf(fault.Invalid, format, args...).WithHint("%s --help", cmd.CommandPath())
}

// arguments checks the number of arguments against the use line of a command. In the use line, NAME
// is required, [NAME] is optional, and NAME... stands for one or more arguments.
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

// subcommand rejects arguments of a command that has only subcommands. The error suggests a
// command.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if meant := meantCommand(cmd, args[0]); meant != "" {
		return fault.Newf(fault.Invalid, "unknown command %q for %q: did you mean `%s`?", args[0], cmd.CommandPath(), meant).WithHint("%s --help", meant)
	}
	err := fault.Newf(fault.Invalid, "unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return err.WithHint("%s %s", cmd.CommandPath(), near[0])
	}
	return err.WithHint("%s --help", cmd.CommandPath())
}

// group prints the help of a command that has only subcommands.
func group(cmd *cobra.Command, _ []string) error { return cmd.Help() }
