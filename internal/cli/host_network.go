package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/operations"
)

func newHostNetwork() *cobra.Command {
	return command("network-settings", "Show what --host-network-settings gives to a machine",
		`Show the settings that tools of this host need to reach the network: proxies, CA certificates, and
the mirrors of apt, Go, npm and pip. They come from environment variables, and from the tools'
configuration files. With --host-network-settings, a machine gets all of them that it can use, and
the egress rules that they need.

A machine gets no password or token. If a setting contains one, the column CREDENTIAL has its name.
--host-network-credential NAME gives it to the programs of a machine, as an environment variable.`,
		`  pyro host network-settings
  pyro run debian:12-build --host-network-settings -- go install golang.org/x/tools/cmd/stringer@latest`,
		func(cmd *cobra.Command, _ []string) error {
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*operations.HostSettings, error) {
				return operations.HostNetworkSettings(p, ctx)
			}, showHostNetwork)
		})
}

func showHostNetwork(s *operations.HostSettings) error {
	rows := [][]string{{"TOOL", "SETTING", "VALUE", "SOURCE", "EGRESS", "CREDENTIAL"}}
	for _, one := range s.Settings {
		rows = append(rows, []string{one.Tool, one.Name, one.Value, one.Source, dash(strings.Join(one.Egress, " ")), dash(one.Credential)})
	}
	if err := table(os.Stdout, rows); err != nil {
		return err
	}
	for _, one := range s.Settings {
		if one.Unusable != "" {
			fmt.Fprintf(os.Stderr, "pyro: warning: machines do not get %s of %s: %s\n", one.Name, one.Tool, one.Unusable)
		}
	}
	return nil
}
