package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/demo"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a tour of pyro on a real machine",
		Long: `Give a tour of pyro on a real machine. The tour fixes a bug in a workspace, takes a snapshot,
breaks the files and resets them. It also runs a service and a shell, and exports a file. Each
step shows the equivalent command and its output.

The tour deletes everything that it creates, even if it fails or you press Ctrl-C. The first tour
takes longer, because it prepares the environment: see pyro prepare.

The exit code is not 0 if a step failed.`,
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return tour(cmd) },
	}
	jsonFlag(cmd)
	cmd.AddCommand(newDemoOllama())
	return cmd
}

func tour(cmd *cobra.Command) error {
	task, err := openTask(cmd.Context())
	if err != nil {
		return err
	}
	defer task.close()
	asJSON := wantsJSON(cmd)
	req := demo.TourRequest{Progress: task.progress.report}
	if !asJSON {
		req.Begin = func(number, of int, s demo.Step) {
			fmt.Printf("[%d/%d] %s: %s\n  $ %s\n", number, of, s.Name, s.Text, strings.ReplaceAll(s.Command, "\n", "\n  $ "))
		}
		req.End = func(s demo.Step) {
			task.progress.stop()
			printStep(os.Stdout, s)
		}
	}
	report, err := demo.Tour(task.ctx, task.pyro, req)
	task.progress.stop()
	if asJSON {
		if printed := printJSON(os.Stdout, report); printed != nil {
			return printed
		}
	} else {
		printTour(os.Stdout, report)
	}
	if err == nil {
		return nil
	}
	err = task.signals.explain(err)
	if asJSON { // the printed report already contains the error
		if end, ok := err.(exit); ok {
			return exit{code: end.code}
		}
		return exit{code: fault.ExitCode(err)}
	}
	return err
}

// printStep prints the output and the result of a step.
func printStep(w io.Writer, s demo.Step) {
	for line := range strings.Lines(s.Output) {
		fmt.Fprintln(w, "   ", strings.TrimRight(line, "\n"))
	}
	how := "done"
	if !s.OK {
		how = "failed"
	}
	fmt.Fprintf(w, "  %s in %.2f s\n\n", how, s.MS/1000)
}

// printTour prints the summary of the tour.
func printTour(w io.Writer, r *demo.Report) {
	done := 0
	for _, s := range r.Steps {
		if s.OK {
			done++
		}
	}
	how := "nothing remains"
	if !r.OK {
		how = "it was not finished"
	}
	fmt.Fprintf(w, "[summary] environment=%s isolation=%s steps=%d of %d total=%.2fs: %s\n", r.Environment, r.Isolation, done, len(r.Steps), r.TotalMS/1000, how)
}
