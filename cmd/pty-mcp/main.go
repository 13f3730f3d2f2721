// Command pty-mcp is an MCP server on stdio that gives agents terminals on this host. The
// environment variables PTY_MCP_* configure it.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/ptymcp"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/session/process"
	"github.com/pyro-mcp/pyro/internal/version"
)

const help = `pty-mcp ` + "%s" + `: terminals on this computer as tools, for agents
It takes no arguments: an agent's host starts it, and speaks the Model Context Protocol on its standard
streams. Its settings are the environment variables PTY_MCP_*.
`

func main() {
	// Programs on terminals must not inherit descriptors that this process inherited without
	// close-on-exec.
	unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if len(os.Args) == 3 && os.Args[1] == session.Command {
		if process.Main(os.Args[2], os.Stdout, nil) != nil {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && (os.Args[1] == "--help" || os.Args[1] == "--version") {
		fmt.Printf(help, version.String())
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "pty-mcp: error:", err)
		if hint := fault.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "pty-mcp: hint:", hint)
		}
		os.Exit(fault.ExitCode(err))
	}
}

func serve() error {
	if len(os.Args) > 1 {
		return fault.Newf(fault.Invalid, "pty-mcp takes no arguments").WithHint("pty-mcp --help")
	}
	program.CatchIgnored()
	ptymcp.Tune()
	server, err := ptymcp.Open(version.String())
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := signal.NotifyContext(context.Background(), program.NotIgnored(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)...)
	defer stop()
	return server.Run(ctx, os.Stdin, os.Stdout)
}
