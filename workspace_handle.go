package pyro

import (
	"context"
	"net"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// errNoHandle is the error for a method call on a Workspace that this package did not return.
var errNoHandle = fault.New(Invalid, "use workspace", "", "it has no connection to pyro: get it with Pyro.Workspace")

// Workspace returns the workspace with the given id or name. The fields of the result show the
// current state.
func (p *Pyro) Workspace(ctx context.Context, id string) (*Workspace, error) {
	return p.StatusWorkspace(ctx, id)
}

// Refresh updates the fields of w to the current state of the workspace.
func (w *Workspace) Refresh(ctx context.Context) error { return w.become(ctx, (*Pyro).StatusWorkspace) }

// Start starts a stopped workspace. Start does nothing if the workspace runs.
func (w *Workspace) Start(ctx context.Context) error {
	return w.become(ctx, func(p *Pyro, ctx context.Context, id string) (*Workspace, error) {
		return p.StartWorkspace(ctx, StartWorkspaceRequest{WorkspaceID: id})
	})
}

// Stop kills all programs in the workspace. The workspace's files, snapshots and history do not
// change.
func (w *Workspace) Stop(ctx context.Context) error { return w.become(ctx, (*Pyro).StopWorkspace) }

// Pause saves the machine to disk, with all programs that run in it. The next operation on the
// workspace resumes the machine.
func (w *Workspace) Pause(ctx context.Context) error { return w.become(ctx, (*Pyro).PauseWorkspace) }

// Delete removes the workspace with everything in it.
func (w *Workspace) Delete(ctx context.Context) error {
	_, err := use(w, func(p *Pyro, id string) (*DeletedWorkspace, error) { return p.DeleteWorkspace(ctx, id) })
	return err
}

// become calls an operation on the workspace, and sets w to the result.
func (w *Workspace) become(ctx context.Context, do func(*Pyro, context.Context, string) (*Workspace, error)) error {
	now, err := use(w, func(p *Pyro, id string) (*Workspace, error) { return do(p, ctx, id) })
	if err == nil {
		*w = *now
	}
	return err
}

// DialContext connects to a TCP port of a program in the workspace. It can be the field DialContext
// of an http.Transport. The program must listen on a loopback address or on all addresses.
// DialContext works with every network policy, because the connection does not use the workspace's
// network.
//
// The parameter network must be tcp, tcp4 or tcp6. The host in address must be localhost or a
// loopback address. With another host, the error has the kind Invalid. If no program listens on the
// port, the error has the kind Unavailable.
//
// The parameter ctx limits only the dialing. An open connection counts as use of the workspace and
// prevents its automatic pause, so close idle connections. A workspace can have at most 256 open
// connections. Stop and Pause close all connections. A connection has a method CloseWrite() error.
func (w *Workspace) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if w.pyro == nil {
		return nil, errNoHandle
	}
	port, err := loopbackPort(network, address)
	if err != nil {
		return nil, fault.Wrap(err, "dial", address)
	}
	conn, err := w.pyro.workspaces.DialPort(ctx, w.WorkspaceID, port)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return conn, nil
}

// loopbackPort checks the arguments of DialContext and returns the port.
func loopbackPort(network, address string) (int, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return 0, fault.Newf(Unsupported, "network %q is not tcp", network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, &Error{Kind: Invalid, Err: err}
	}
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return 0, invalid("%q is not the workspace", host).WithHint("use localhost:%s", port)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return 0, invalid("%q is not a port", port)
	}
	return int(number), nil
}
