package remote

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/gen/supervisor/v1/supervisorv1connect"
)

// Client is a connection to the supervisor of a workspace. It is safe for concurrent use. Close it.
type Client struct {
	folder    Folder
	use       *flock.Lock
	conns     connections
	rpc       supervisorv1connect.SupervisorServiceClient
	http      *http.Client
	transport *http.Transport
}

// Dial connects to the supervisor of a workspace, and waits for it where it is starting its machine. Precondition where there is none: it is stopped.
func Dial(ctx context.Context, f Folder) (*Client, error) {
	use, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := reach(ctx, f)
	if err != nil {
		use.Release()
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &Client{folder: f, use: use}
	c.conns.add(conn)
	first := make(chan net.Conn, 1)
	first <- conn
	c.transport = &http.Transport{
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: MaxFrame, MaxReceiveBufferPerConnection: SharedBuffer, MaxReceiveBufferPerStream: ReceiveBuffer,
		},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case conn := <-first:
				return conn, nil
			default:
				conn, err := reach(ctx, f)
				if err == nil && !c.conns.add(conn) {
					return nil, errClosed
				}
				return conn, err
			}
		},
		DisableCompression: true,
	}
	c.http = &http.Client{Transport: c.transport}
	c.rpc = supervisorv1connect.NewSupervisorServiceClient(c.http, "http://supervisor", connect.WithAcceptCompression("gzip", nil, nil))
	return c, nil
}

var errClosed = fault.New(fault.Unavailable, "use workspace", "", "the connection to its supervisor is closed")

// connections are those of a client.
type connections struct {
	mu     sync.Mutex
	all    []net.Conn
	closed bool
}

// add takes a connection, unless the client has been closed: then it closes it.
func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return false
	}
	c.all = append(c.all, conn)
	return true
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.all {
		conn.Close()
	}
	c.all = nil
}

// Close ends the connection, and every operation on it.
func (c *Client) Close() error {
	c.conns.close()
	c.use.Release()
	c.transport.CloseIdleConnections()
	return nil
}

// Status is what a supervisor says of itself.
type Status struct {
	Version         string
	PID, MachinePID int
	StartedAt       time.Time
	LastActivityAt  time.Time
	ExpiresAt       time.Time // zero: never
	UnlimitedReason string
}

// Status asks the supervisor what it is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	r, err := c.rpc.Status(ctx, connect.NewRequest(&supervisorv1.StatusRequest{}))
	if err != nil {
		return Status{}, fromWire(ctx, err)
	}
	m := r.Msg
	s := Status{
		Version: m.Version, PID: int(m.Pid), MachinePID: int(m.MachinePid), UnlimitedReason: fault.Printable(m.UnlimitedReason),
		StartedAt: time.Unix(0, m.StartedUnixNanos).UTC(), LastActivityAt: time.Unix(0, m.LastActivityUnixNanos).UTC(),
	}
	if m.ExpiresUnixNanos > 0 {
		s.ExpiresAt = time.Unix(0, m.ExpiresUnixNanos).UTC()
	}
	return s, nil
}

// Snapshot keeps the present state of the workspace under a name; with live that of its machine too.
func (c *Client) Snapshot(ctx context.Context, name string, whole, live bool) error {
	_, err := c.rpc.Snapshot(ctx, connect.NewRequest(&supervisorv1.SnapshotRequest{Name: name, Whole: whole, Live: live}))
	return fromWire(ctx, err)
}

// Pause writes down the machine and ends it, and returns when its supervisor has ended. The client is closed then. With an error the machine goes on.
func (c *Client) Pause(ctx context.Context, reason string) error {
	_, err := c.rpc.Pause(ctx, connect.NewRequest(&supervisorv1.PauseRequest{Reason: reason}))
	if err != nil {
		return fromWire(ctx, err)
	}
	c.Close() // the supervisor would wait for the connection to be used no more
	return c.folder.AwaitEnd(ctx)
}

// Stop stops the machine, and returns when its supervisor has ended. The client is closed then. With discard nothing of it but the volume is to be kept.
func (c *Client) Stop(ctx context.Context, reason string, discard bool) error {
	_, err := c.rpc.Stop(ctx, connect.NewRequest(&supervisorv1.StopRequest{Reason: reason, Discard: discard}))
	if err = fromWire(ctx, err); err != nil && fault.KindOf(err) != fault.Unavailable {
		return err
	}
	c.Close() // the supervisor would wait for the connection to be used no more
	return c.folder.AwaitEnd(ctx)
}

// AwaitEnd waits until the workspace has no supervisor any more.
func (f Folder) AwaitEnd(ctx context.Context) error {
	for f.Running() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
