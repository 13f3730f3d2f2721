package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func newWorkspacePortForward() *cobra.Command {
	return &cobra.Command{
		Use: "port-forward ID PORT...", Short: "Forward ports of this host to programs in a workspace",
		Long: `Forward ports of 127.0.0.1 to TCP ports of programs in a workspace, until Ctrl-C. A PORT is one of:

  8000         forward port 8000 of this host to port 8000 of the workspace
  18080:8000   forward port 18080 of this host to port 8000 of the workspace
  :8000        forward a free port of this host to port 8000 of the workspace

The command prints a line for each port when all ports are open. It works with every network policy
and with every program that listens on a loopback address or on all addresses. If a connection
fails, standard error says why, and the command continues. It also continues when the workspace is
stopped and started. A connection resumes a paused workspace, and an open connection counts as use.`,
		Example: `  pyro workspace port-forward ws-0123456789ab 8000
  pyro workspace port-forward ws-0123456789ab 15432:5432 :8000`,
		Args:              arguments,
		ValidArgsFunction: completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := pyro.ForwardPortsRequest{WorkspaceID: args[0], Forwarding: showForwarding, Failed: printForwardError}
			for _, text := range args[1:] {
				port, err := parseForward(text)
				if err != nil {
					return err
				}
				req.Ports = append(req.Ports, port)
			}
			t, err := openTask(cmd.Context())
			if err != nil {
				return err
			}
			defer t.close()
			return t.signals.explain(t.pyro.ForwardPorts(t.ctx, req))
		},
	}
}

// parseForward parses a port that is forwarded, in the form GUEST, HOST:GUEST or :GUEST.
func parseForward(text string) (pyro.PublishedPort, error) {
	port, ok := parsePort(strings.TrimPrefix(text, ":"))
	if !ok {
		return port, fault.Newf(fault.Invalid, "PORT is %q: it must be GUEST_PORT, HOST_PORT:GUEST_PORT or :GUEST_PORT", text)
	}
	if !strings.Contains(text, ":") {
		port.HostPort = port.GuestPort
	}
	return port, nil
}

func showForwarding(p pyro.PublishedPort) {
	fmt.Printf("Forwarding from 127.0.0.1:%d -> %d\n", p.HostPort, p.GuestPort)
}

// printForwardError prints one line about a connection that could not be opened.
func printForwardError(p pyro.PublishedPort, err error) {
	line := fmt.Sprintf("pyro: error: a connection to port %d failed: %s", p.GuestPort, fault.Printable(err.Error()))
	if hint := pyro.HintOf(err); hint != "" {
		line += "; hint: " + hint
	}
	fmt.Fprintln(os.Stderr, strings.ReplaceAll(line, "\n", " "))
}
