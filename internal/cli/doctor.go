package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newDoctor() *cobra.Command {
	var environment string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host and show how to fix problems",
		Long: `Check this host: isolation, QEMU, environments, templates, tools, folders and disk space. To test
each isolation level, pyro boots a kernel. If something is missing, the output has the command that
fixes it.

With --environment, the output also says how the next machine of that environment starts:
warm, if everything is ready; cold, if something must be made first; or stale, if something is
outdated or damaged.

The exit code is 1 if pyro run cannot work.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd, environment) },
	}
	cmd.Flags().StringVar(&environment, "environment", "", "also say if this `ENV` is warm, cold or stale")
	cmd.RegisterFlagCompletionFunc("environment", completeEnvironment)
	jsonFlag(cmd)
	return cmd
}

func examine(cmd *cobra.Command, environment string) error {
	ok := true
	err := operation(cmd, func(ctx context.Context, p *pyro.Pyro, progress pyro.ProgressFunc) (*pyro.DoctorReport, error) {
		report, err := p.Doctor(ctx, pyro.DoctorRequest{Environment: environment, Progress: progress})
		ok = err != nil || report.OK
		return report, err
	}, printReport)
	if err == nil && !ok {
		return exit{code: 1}
	}
	return err
}

func printReport(report *pyro.DoctorReport) error {
	var rows [][]string
	for _, c := range report.Checks {
		rows = append(rows, []string{string(c.Status), c.Name, c.Detail})
		if c.Hint != "" && c.Status != pyro.CheckOK {
			rows = append(rows, []string{"", "", "fix: " + c.Hint})
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
