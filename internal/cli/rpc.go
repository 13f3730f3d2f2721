package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
)

func newRPC() *cobra.Command {
	return &cobra.Command{
		Use:   "rpc",
		Short: "Serve pyro's operations to a program, as SDKs use them",
		Long: `Serve pyro's operations to the program that started it, as JSON-RPC 2.0 on the standard input
and output, a message a line. The Python package pyro-mcp uses it; docs/rpc.md describes it for
those who write another.

It ends with its input, or when its output is closed. What it was asked for is cancelled then,
and with it the commands that it ran; workspaces, with their services and shells, go on.`,
		Example: `  (echo '{"jsonrpc":"2.0","id":1,"method":"list_workspaces"}'; sleep 1) | pyro rpc`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := pyro.New(pyro.Options{})
			if err != nil {
				return err
			}
			defer p.Close()
			ctx, signals := endOnSignals(cmd.Context())
			defer signals.stop()
			return p.ServeRPC(ctx, os.Stdin, os.Stdout)
		},
	}
}
