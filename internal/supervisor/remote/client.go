package remote

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/spawn"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/gen/supervisor/v1/supervisorv1connect"
)

// Client is a connection to the supervisor of a workspace. It is safe for concurrent use. The
// caller must close it.
type Client struct {
	folder Folder
	use    *flock.Lock
	conns  connections
	rpc    supervisorv1connect.SupervisorServiceClient
	calls  *http.Client // calls over HTTP/2, which share one connection
	reads  *http.Client // reads over HTTP/1.1, each on its own connection; that needs a third less processor time
}

// Dial connects to the supervisor of a workspace. If the supervisor is still starting its machine,
// Dial waits. The error has kind Precondition if the workspace is stopped.
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

// Watch connects like Dial, but the client does not count as use. The supervisor can pause the
// machine while the client is open.
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

// connections are the open network connections of a client.
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

// add adds a connection. If the client has been closed, it closes the connection.
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

// Close closes the client and cancels all its operations.
func (c *Client) Close() error {
	c.conns.close()
	c.use.Release()
	c.calls.CloseIdleConnections()
	c.reads.CloseIdleConnections()
	return nil
}

// Status describes a supervisor.
type Status struct {
	Version         string
	PID, MachinePID int
	StartedAt       time.Time
	LastActivityAt  time.Time
	ExpiresAt       time.Time // zero if it never expires
	UnlimitedReason string
}

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

// Snapshot saves the current state of the workspace under a name. If whole is true, it also saves
// the root disk. If live is true, it also saves the root disk and the running machine with its
// programs.
func (c *Client) Snapshot(ctx context.Context, name string, whole, live bool) error {
	_, err := c.rpc.Snapshot(ctx, connect.NewRequest(&supervisorv1.SnapshotRequest{Name: name, Whole: whole, Live: live}))
	return fromWire(ctx, err)
}

// Reconfigure applies the time to live and the network policy that the record of the workspace has
// now. It closes the connections and the published ports that the new policy refuses. The error has
// kind Unsupported if an older pyro started the supervisor.
func (c *Client) Reconfigure(ctx context.Context) error {
	_, err := c.rpc.Reconfigure(ctx, connect.NewRequest(&supervisorv1.ReconfigureRequest{}))
	return fromWire(ctx, err)
}

// Pause saves the machine and ends it. It closes the client, and returns when the supervisor has
// ended. If the pause fails, the machine keeps running.
func (c *Client) Pause(ctx context.Context, reason string) error {
	_, err := c.rpc.Pause(ctx, connect.NewRequest(&supervisorv1.PauseRequest{Reason: reason}))
	if err != nil {
		return fromWire(ctx, err)
	}
	c.Close() // the supervisor ends only when this connection is closed
	return c.folder.AwaitEnd(ctx)
}

// Stop stops the machine. It closes the client, and returns when the supervisor has ended. If
// discard is true, changes to the root disk can be lost, but the volume is kept.
func (c *Client) Stop(ctx context.Context, reason string, discard bool) error {
	_, err := c.rpc.Stop(ctx, connect.NewRequest(&supervisorv1.StopRequest{Reason: reason, Discard: discard}))
	if err = fromWire(ctx, err); err != nil && fault.KindOf(err) != fault.Unavailable {
		return err
	}
	c.Close() // the supervisor ends only when this connection is closed
	return c.folder.AwaitEnd(ctx)
}

// AwaitReason waits until the reason for the end of the machine is recorded. It also returns when
// the supervisor and the machine have ended without a record.
func (f Folder) AwaitReason(ctx context.Context) error { return f.await(ctx, f.ended) }

// AwaitEnd waits until neither the supervisor nor a process of its machine runs.
func (f Folder) AwaitEnd(ctx context.Context) error { return f.await(ctx, nil) }

// await waits until neither the supervisor nor a process of its machine runs. It returns earlier if
// the function enough returns true.
func (f Folder) await(ctx context.Context, enough func() bool) error {
	for {
		if err := flock.AwaitRelease(ctx, f.path(supervisorLock), enough); err != nil {
			return err
		}
		if enough != nil && enough() || !f.Running() {
			return nil
		}
		for _, p := range f.processes() {
			if err := f.awaitProcess(ctx, p); err != nil {
				return err
			}
		}
	}
}

// awaitProcess waits until a process of the machine has ended.
func (f Folder) awaitProcess(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0) // Linux before 5.10 does not have the flag PIDFD_NONBLOCK
	if err != nil {
		if slices.Contains(f.processes(), pid) {
			return os.NewSyscallError("pidfd_open", err)
		}
		return nil // it has ended
	}
	unix.SetNonblock(fd, true)
	process := os.NewFile(uintptr(fd), "pidfd")
	defer process.Close()
	if !slices.Contains(f.processes(), pid) {
		return nil // it has ended, and another process got its PID
	}
	defer context.AfterFunc(ctx, func() { process.SetReadDeadline(time.Unix(1, 0)) })()
	if err := spawn.AwaitEnd(process); err != nil {
		return err
	}
	return context.Cause(ctx)
}
