package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of pyro",
		Args:  arguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(os.Stdout, "pyro", pyro.Version())
			return err
		},
	}
}
