package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// onServicePorts returns a command whose arguments are a workspace, a service and ports.
func onServicePorts(use, short, long, example string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := onPart(use, short, long, example, completeService, nil)
	cmd.RunE = run
	return cmd
}

func newServicePublish() *cobra.Command {
	return onServicePorts("publish ID NAME PORT...", "Publish ports of a running service",
		`Publish more ports of a running service on 127.0.0.1 of this host. PORT is [HOST_PORT:]GUEST_PORT, as
for "pyro workspace service start --publish". The ports close when the service ends. The workspace
needs the network policy egress+published-ports. For other workspaces and programs, use "pyro
workspace port-forward".`, "  pyro workspace service publish ws-0123456789ab web 18080:8000",
		func(cmd *cobra.Command, args []string) error {
			req := pyro.PublishServiceRequest{WorkspaceID: args[0], ServiceName: args[1]}
			for _, text := range args[2:] {
				port, ok := parsePort(text)
				if !ok {
					return fault.Newf(fault.Invalid, "PORT is %q: it must be GUEST_PORT or HOST_PORT:GUEST_PORT", text)
				}
				req.PublishedPorts = append(req.PublishedPorts, port)
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.PublishService(ctx, req)
			}, showService)
		})
}

func newServiceUnpublish() *cobra.Command {
	return onServicePorts("unpublish ID NAME GUEST_PORT...", "Close published ports of a running service",
		"Close published ports of a running service, with all their connections. The service keeps running.", "",
		func(cmd *cobra.Command, args []string) error {
			req := pyro.UnpublishServiceRequest{WorkspaceID: args[0], ServiceName: args[1]}
			for _, text := range args[2:] {
				port, err := strconv.ParseUint(text, 10, 16)
				if err != nil || port == 0 {
					return fault.Newf(fault.Invalid, "GUEST_PORT is %q: it must be a port of the workspace", text)
				}
				req.GuestPorts = append(req.GuestPorts, int(port))
			}
			return operation(cmd, func(ctx context.Context, p *pyro.Pyro, _ pyro.ProgressFunc) (*pyro.Service, error) {
				return p.UnpublishService(ctx, req)
			}, showService)
		})
}
