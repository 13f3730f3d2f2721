package pyro

import (
	"context"
	"net"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/forward"
	"github.com/pyro-mcp/pyro/internal/store"
)

// ForwardPortsRequest names TCP ports of programs in a workspace. WorkspaceID and Ports are
// required. ForwardPorts calls one function at a time.
type ForwardPortsRequest struct {
	WorkspaceID string
	Ports       []PublishedPort            // HostPort 0: any free port
	Forwarding  func(PublishedPort)        // is called for each port when it is open; optional
	Failed      func(PublishedPort, error) // is called for each connection that could not be opened; optional
}

// ForwardPorts forwards ports of 127.0.0.1 to programs in a workspace, until ctx is cancelled. Then
// it ends all connections and returns nil. The programs must listen on a loopback address or on all
// addresses. ForwardPorts works with every network policy, because the connections do not use the
// workspace's network.
//
// A connection resumes a paused workspace. While the workspace is stopped, connections fail. An
// open connection counts as use of the workspace. A workspace can have at most 256 open
// connections. If a port of the host is in use, the error has the kind Exists.
func (p *Pyro) ForwardPorts(ctx context.Context, req ForwardPortsRequest) error {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return err
	}
	if len(req.Ports) == 0 {
		return invalid("there is no port to forward")
	}
	if _, err := p.workspaces.Get(ctx, store.KindWorkspace, req.WorkspaceID); err != nil {
		return causeOf(ctx, err)
	}
	var calls sync.Mutex
	var all []PublishedPort
	for _, port := range req.Ports {
		if port.GuestPort < 1 || port.GuestPort > 65535 || port.HostPort < 0 || port.HostPort > 65535 {
			return invalid("%d:%d are not ports", port.HostPort, port.GuestPort)
		}
		dial := func(ctx context.Context) (net.Conn, error) {
			return p.workspaces.DialPort(ctx, req.WorkspaceID, port.GuestPort)
		}
		open, err := forward.Listen(port.HostPort, dial, func(err error) {
			calls.Lock()
			defer calls.Unlock()
			if req.Failed != nil {
				req.Failed(port, err)
			}
		})
		if fault.KindOf(err) == fault.Exists || fault.KindOf(err) == fault.Permission {
			return fault.Newf(fault.KindOf(err), "%w", err).WithHint("port :%d uses a free port of the host", port.GuestPort)
		}
		if err != nil {
			return err
		}
		defer open.Close()
		all = append(all, PublishedPort{GuestPort: port.GuestPort, HostPort: open.Number})
	}
	if req.Forwarding != nil {
		calls.Lock()
		for _, port := range all {
			req.Forwarding(port)
		}
		calls.Unlock()
	}
	<-ctx.Done()
	return nil
}
