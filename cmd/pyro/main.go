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
	"github.com/pyro-mcp/pyro/internal/session/process"
	"github.com/pyro-mcp/pyro/internal/supervisor/daemon"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspaceshell"
)

func main() {
	// Programs that pyro starts must not inherit descriptors that pyro inherited without
	// close-on-exec.
	unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if len(os.Args) == 2 && os.Args[1] == remote.Command {
		if err := daemon.Run(context.Background(), pyro.Version(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "pyro: error:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == session.Command {
		if process.Main(os.Args[2], os.Stdout, workspaceshell.Workspaces{}) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Main(os.Args[1:]))
}
