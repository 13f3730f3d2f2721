package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro/internal/operations"
)

func newRPC() *cobra.Command {
	return &cobra.Command{
		Use:   "rpc",
		Short: "Serve pyro's operations to SDKs",
		Long: `Serve pyro's operations to the parent process, as JSON-RPC 2.0 on standard input and output, one
message per line. The Python package pyro-mcp uses it. docs/rpc.md describes the protocol.

When its input ends, pyro finishes the calls that it read, for up to an hour, and then ends. If
nothing reads its output any more, it cancels its calls and ends the commands that they ran.
Workspaces, services and shells keep running.`,
		Example: `  echo '{"jsonrpc":"2.0","id":1,"method":"list_workspaces"}' | pyro rpc`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openTask(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return operations.ServeRPC(s.ctx, s.pyro, os.Stdin, os.Stdout)
		},
	}
}
