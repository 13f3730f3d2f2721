package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

// operation is what most commands are: one call of pyro's, whose result is printed, as JSON where --json is given. A signal ends the call.
func operation[T any](cmd *cobra.Command, call func(context.Context, *pyro.Pyro, pyro.ProgressFunc) (T, error), show func(T) error) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	progress := newProgress(false)
	defer progress.stop()
	result, err := call(ctx, p, progress.report)
	progress.stop()
	if err != nil {
		return signals.explain(err)
	}
	if wantsJSON(cmd) {
		return printJSON(os.Stdout, result)
	}
	return show(result)
}

// wantsJSON tells whether a command's result is to be JSON.
func wantsJSON(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("json")
	return yes
}

// jsonFlag adds --json to a command.
func jsonFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print one JSON object") }

// command makes one that has --json, and the arguments that its use names.
func command(use, short, long, example string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: arguments, RunE: run}
	jsonFlag(cmd)
	return cmd
}
