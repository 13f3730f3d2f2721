package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

// task is a call of package pyro that a signal can cancel. The caller must call close.
type task struct {
	pyro     *pyro.Pyro
	ctx      context.Context
	signals  *signals
	progress *progressLine
}

func openTask(ctx context.Context) (*task, error) {
	p, err := pyro.New(pyro.Options{PortChanged: showPortChange})
	if err != nil {
		return nil, err
	}
	s := &task{pyro: p, progress: newProgress(false)}
	s.ctx, s.signals = endOnSignals(ctx)
	return s, nil
}

func (s *task) close() {
	s.progress.stop()
	s.signals.stop()
	s.pyro.Close()
}

// operation makes a call of package pyro and prints the result. With --json, it prints the result
// as JSON. A signal cancels the call.
func operation[T any](cmd *cobra.Command, call func(context.Context, *pyro.Pyro, pyro.ProgressFunc) (T, error), show func(T) error) error {
	s, err := openTask(cmd.Context())
	if err != nil {
		return err
	}
	defer s.close()
	result, err := call(s.ctx, s.pyro, s.progress.report)
	s.progress.stop()
	if err == nil && wantsJSON(cmd) {
		err = printJSON(os.Stdout, result)
	} else if err == nil {
		err = show(result)
	}
	return s.signals.explain(err)
}

// wantsJSON reports whether the command has the flag --json.
func wantsJSON(cmd *cobra.Command) bool {
	yes, _ := cmd.Flags().GetBool("json")
	return yes
}

// jsonFlag adds the flag --json to a command.
func jsonFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print one JSON object") }

// command returns a command that has the flag --json. Its use line lists its arguments.
func command(use, short, long, example string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: arguments, RunE: run}
	jsonFlag(cmd)
	return cmd
}
