package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/demo"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a tour of pyro on a real machine",
		Long: `Give a tour of pyro on real machines: a workspace of a small folder with a bug in it, which is
found, mended, kept, broken and taken back, with a service, a shell and an export. Each step is
told with the command that does the same, and with what came out. Nothing is left, also where it
fails or is ended by Ctrl-C. The first tour makes ready what machines start from: see pyro prepare.

The exit code is not 0 if a step did not do what it says.`,
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return tour(cmd) },
	}
	jsonFlag(cmd)
	cmd.AddCommand(newDemoOllama())
	return cmd
}

func tour(cmd *cobra.Command) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, signals := endOnSignals(cmd.Context())
	defer signals.stop()
	progress := newProgress(false)
	defer progress.stop()
	asJSON := wantsJSON(cmd)
	req := demo.TourRequest{Progress: progress.report}
	if !asJSON {
		req.Begin = func(number, of int, s demo.Step) {
			fmt.Printf("[%d/%d] %s: %s\n  $ %s\n", number, of, s.Name, s.Text, strings.ReplaceAll(s.Command, "\n", "\n  $ "))
		}
		req.End = func(s demo.Step) {
			progress.stop()
			printStep(os.Stdout, s)
		}
	}
	report, err := demo.Tour(ctx, p, req)
	progress.stop()
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
	err = signals.explain(err)
	if asJSON { // which has told the error
		if end, ok := err.(exit); ok {
			return exit{code: end.code}
		}
		return exit{code: fault.ExitCode(err)}
	}
	return err
}

// printStep prints what came out of a step.
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

// printTour prints the summary.
func printTour(w io.Writer, r *demo.Report) {
	done := 0
	for _, s := range r.Steps {
		if s.OK {
			done++
		}
	}
	how := "nothing is left"
	if !r.OK {
		how = "it was not finished"
	}
	fmt.Fprintf(w, "[summary] environment=%s isolation=%s steps=%d of %d total=%.2fs: %s\n", r.Environment, r.Isolation, done, len(r.Steps), r.TotalMS/1000, how)
}
