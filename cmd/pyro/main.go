// Command pyro gives an AI agent its own computer. See docs/cli.md.
package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/cli"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/session/keeper"
	"github.com/pyro-mcp/pyro/internal/supervisor/daemon"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

func main() {
	// What whoever called pyro has open, and did not mark to be kept from programs that it starts, is not for those that pyro starts.
	unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if len(os.Args) == 2 && os.Args[1] == remote.Command {
		if err := daemon.Run(context.Background(), pyro.Version(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "pyro: error:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == session.Command {
		if keeper.Main(os.Args[2], os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Main(os.Args[1:]))
}
