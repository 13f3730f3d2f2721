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
	folder Folder
	use    *flock.Lock
	conns  connections
	rpc    supervisorv1connect.SupervisorServiceClient
	calls  *http.Client // over HTTP/2, many on one connection
	reads  *http.Client // over HTTP/1.1, each on a connection of its own: content comes in pieces of any size, and takes a third less of the processor
}

// Dial connects to the supervisor of a workspace, and waits for it where it is starting its machine. Precondition where there is none: it is stopped.
func Dial(ctx context.Context, f Folder) (*Client, error) {
	use, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	c, err := Watch(ctx, f)
	if err != nil {
		use.Release()
		return nil, err
	}
	c.use = use
	return c, nil
}

// Watch connects likewise for a client that only follows: as long as no other client uses the machine,
// its supervisor may pause it.
func Watch(ctx context.Context, f Folder) (*Client, error) {
	conn, err := reach(ctx, f)
	if err != nil {
		return nil, err
	}
	c := &Client{folder: f}
	if conn, err = c.conns.add(conn); err != nil {
		return nil, err
	}
	first := make(chan net.Conn, 1)
	first <- conn
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case conn := <-first:
			return conn, nil
		default:
			conn, err := reach(ctx, f)
			if err != nil {
				return nil, err
			}
			return c.conns.add(conn)
		}
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c.calls = &http.Client{Transport: &http.Transport{
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: MaxFrame, MaxReceiveBufferPerConnection: SharedBuffer, MaxReceiveBufferPerStream: ReceiveBuffer,
		},
		DialContext: dial, DisableCompression: true,
	}}
	c.reads = &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}
	c.rpc = supervisorv1connect.NewSupervisorServiceClient(c.calls, "http://supervisor", connect.WithAcceptCompression("gzip", nil, nil))
	return c, nil
}

var errClosed = fault.New(fault.Unavailable, "use workspace", "", "the connection to its supervisor is closed")

// connections are those of a client that are open.
type connections struct {
	mu     sync.Mutex
	all    map[*connection]bool
	closed bool
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// add takes a connection, unless the client has been closed: then it closes it.
func (c *connections) add(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, errClosed
	}
	if c.all == nil {
		c.all = map[*connection]bool{}
	}
	added := &connection{conn, c}
	c.all[added] = true
	return added, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.all {
		conn.Conn.Close()
	}
	c.all = nil
}

// Close ends the connection, and every operation on it.
func (c *Client) Close() error {
	c.conns.close()
	c.use.Release()
	c.calls.CloseIdleConnections()
	c.reads.CloseIdleConnections()
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

// AwaitReason waits until it is known why the last machine ended, or cannot be known any more.
func (f Folder) AwaitReason(ctx context.Context) error {
	for !f.ended() && f.Running() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
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
