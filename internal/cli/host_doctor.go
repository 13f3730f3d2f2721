package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/agenthost"
	"github.com/pyro-mcp/pyro/internal/operations"
)

func newHostDoctor() *cobra.Command {
	var asJSON bool
	var name string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the programs that run agents",
		Long: `Check the programs that run agents. The output says which of them are installed, and how your
configuration and the project in the current folder start pyro. Doctor starts each server in the
same way as the program, asks for the server's tools, and ends the server. If a file of the project
names a server, doctor starts it only if it is this pyro.

The exit code is 1 if a configured server is broken.`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return examineHosts(cmd.Context(), name, asJSON) },
	}
	cmd.Flags().StringVar(&name, "name", agenthost.DefaultName, "`NAME` of the server; doctor also finds servers with other names that start pyro")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func examineHosts(ctx context.Context, name string, asJSON bool) error {
	self, err := ownPath()
	if err != nil {
		return err
	}
	home, err := presentHome()
	if err != nil {
		return err
	}
	ctx, signals := endOnSignals(ctx)
	defer signals.stop()
	report, err := agenthost.Examination{Home: home, Name: name, Self: self, Accepts: servedProfile}.Run(ctx)
	if err != nil {
		return signals.explain(err)
	}
	if asJSON {
		err = printJSON(os.Stdout, report)
	} else {
		err = printHosts(report)
	}
	if err == nil && !report.OK {
		return exit{code: 1}
	}
	return err
}

func printHosts(report *agenthost.Report) error {
	var rows [][]string
	for _, h := range report.Hosts {
		title := h.Title
		if h.Version != "" {
			title += ", " + h.Version
		}
		switch {
		case !h.Installed && !h.Configured:
			rows = append(rows, []string{"-", title, "is not installed"})
		case !h.Configured:
			rows = append(rows, []string{"-", title, "does not have pyro"}, []string{"", "", "connect: " + h.Hint})
		case !h.Installed:
			title += ", not installed"
		}
		for _, s := range h.Servers {
			text := fmt.Sprintf("%s, %s: %q", s.File, s.Scope, s.Name)
			if s.Profile != "" {
				text += ", " + s.Profile
			}
			switch {
			case s.Tools == 1:
				text += ", answers with one tool"
			case s.Tools > 1:
				text += fmt.Sprintf(", answers with %d tools", s.Tools)
			}
			rows = append(rows, []string{string(s.Status), title, text})
			if s.Detail != "" {
				rows = append(rows, []string{"", "", s.Detail})
			}
			if s.Hint != "" {
				rows = append(rows, []string{"", "", "fix: " + s.Hint})
			}
		}
		for _, p := range h.Problems {
			rows = append(rows, []string{"warn", title, p})
		}
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	verdict := "all configured servers work"
	switch {
	case !report.OK:
		verdict = "a configured server does not work"
	case !slices.ContainsFunc(report.Hosts, func(h agenthost.State) bool { return h.Configured }):
		verdict = "no server is configured"
	}
	_, err := fmt.Println("\n" + verdict)
	return err
}

// servedProfile returns the profile in the arguments of a "pyro mcp serve" command that uses stdio.
// For other arguments it returns an error.
func servedProfile(args []string) (string, error) {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return "", err
	}
	if cmd.CommandPath() != "pyro mcp serve" {
		return "", usage(cmd, "the command is %q, not %q", cmd.CommandPath(), "pyro mcp serve")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return "", err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return "", err
	}
	value := func(flag string) string { return cmd.Flags().Lookup(flag).Value.String() }
	switch profile := value("profile"); {
	case !slices.Contains(operations.Profiles, operations.Profile(profile)):
		return "", usage(cmd, "the profile is %q", profile)
	case value("transport") != "stdio":
		return "", usage(cmd, "the transport is %s, and the host needs stdio", value("transport"))
	default:
		return profile, nil
	}
}
