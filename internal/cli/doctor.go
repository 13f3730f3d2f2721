package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var environment string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host can do, and what mends what it can't",
		Long: `Examine this host: QEMU, the isolation that it can give, which is proved by booting a kernel,
environments, templates, tools, folders and disk space. What is missing is told with the
command that mends it. With --environment it tells what the next start of a machine of that
environment will find: warm, all that it starts from; cold, not all, so that it has to be made;
or stale, something that was made from what has changed since, or that is damaged.

The exit code is 1 if pyro run can't work.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd.Context(), environment, asJSON) },
	}
	cmd.Flags().StringVar(&environment, "environment", "", "tell too whether this `ENV` is warm, cold or stale")
	cmd.RegisterFlagCompletionFunc("environment", completeEnvironment)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func examine(ctx context.Context, environment string, asJSON bool) error {
	p, err := pyro.New(pyro.Options{})
	if err != nil {
		return err
	}
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	progress := newProgress(false)
	defer progress.stop()
	report, err := p.Doctor(ctx, pyro.DoctorRequest{Environment: environment, Progress: progress.report})
	progress.stop()
	if err != nil {
		return signals.explain(err)
	}
	if asJSON {
		err = printJSON(os.Stdout, report)
	} else {
		err = printReport(report)
	}
	if err == nil && !report.OK {
		return exit{code: 1}
	}
	return err
}

func printReport(report *pyro.DoctorReport) error {
	var rows [][]string
	for _, c := range report.Checks {
		rows = append(rows, []string{string(c.Status), c.Name, c.Detail})
		if c.Hint != "" && c.Status != pyro.CheckOK {
			rows = append(rows, []string{"", "", "to mend it: " + c.Hint})
		}
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	verdict := "pyro run works on this host"
	if !report.OK {
		verdict = "pyro run does not work on this host"
	}
	_, err := fmt.Println("\n" + verdict)
	return err
}
