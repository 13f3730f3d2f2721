package control

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// ErrNoListener means that no program listens on a port. Errors that wrap it have the kind
// Unavailable.
var ErrNoListener = errors.New("no program listens on the port")

const (
	opPort      = "connect to port" // the operation in the host agent's error for such a port.
	portChunk   = 32 << 10          // bytes per message to a port, and the buffer of a connection.
	closingTime = 5 * time.Second   // time to deliver data that was written before Close
)

// DialPort connects to a TCP port on a loopback address of a sandbox. It resumes a paused sandbox
// and records the new state. ctx limits only the dialing. The connection has no half-close.
func (c *Control) DialPort(ctx context.Context, by Actor, id string, port int) (net.Conn, error) {
	b, err := c.resume(ctx, by, id)
	if err != nil {
		return nil, err
	}
	h, err := c.host(b)
	if err != nil {
		return nil, err
	}
	conn, err := dialPort(ctx, h.Client, id, port)
	if err != nil {
		return nil, err
	}
	// The host may have resumed the sandbox after Reconcile has recorded a pause for inactivity.
	if _, err := c.resume(ctx, by, id); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// resume resumes a sandbox that is recorded as paused.
func (c *Control) resume(ctx context.Context, by Actor, id string) (b store.Sandbox, err error) {
	b, err = c.store.Sandbox(ctx, by.TeamID, id)
	if err != nil || b.Wanted != store.WantPaused {
		return b, err
	}
	unlock, err := c.lock(ctx, id)
	if err != nil {
		return b, err
	}
	defer unlock()
	b, err = c.store.Sandbox(ctx, by.TeamID, id)
	if err != nil || b.Wanted != store.WantPaused { // another request has resumed it
		return b, err
	}
	b, err = c.changeLocked(ctx, by, id, actResume, store.WantRunning, resume)
	c.audit(ctx, by, actResume, onSandbox, id, err)
	return b, err
}

// dialPort connects to a port through a host agent.
func dialPort(ctx context.Context, host HostClient, id string, port int) (net.Conn, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream := host.Dial(life)
	err := stream.Send(&hostv1.DialRequest{Message: &hostv1.DialRequest_Open_{Open: &hostv1.DialRequest_Open{SandboxId: id, Port: uint32(port)}}})
	if err == nil || errors.Is(err, io.EOF) { // after EOF, Receive returns the error of the host
		_, err = stream.Receive()
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, portError(err)
	}
	outer, inner := net.Pipe() // gives connections deadlines
	go func() {
		defer stream.CloseRequest()
		b := make([]byte, portChunk)
		for {
			n, err := inner.Read(b)
			if err != nil {
				return
			}
			if err := stream.Send(&hostv1.DialRequest{Message: &hostv1.DialRequest_Data{Data: b[:n]}}); err != nil {
				return
			}
		}
	}()
	go func() {
		defer cancel()
		defer inner.Close()
		for {
			m, err := stream.Receive()
			if err != nil {
				return
			}
			if _, err := inner.Write(m.Data); err != nil {
				// The client has closed the connection. Wait until its last data has reached the
				// program.
				for err = nil; err == nil; _, err = stream.Receive() {
				}
				return
			}
		}
	}()
	return &portConn{Conn: outer, end: cancel}, nil
}

// portConn is a connection to a port of a sandbox.
type portConn struct {
	net.Conn
	end    context.CancelFunc
	closed atomic.Bool
}

// Close ends the connection. The program still gets the data that was written, for at most
// closingTime.
func (c *portConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		time.AfterFunc(closingTime, c.end)
	}
	return c.Conn.Close()
}

// portError converts the error of a failed connection.
func portError(err error) error {
	var e *connect.Error
	failed := FromHost(err)
	if !errors.As(err, &e) {
		return failed
	}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*pb.ErrorDetail); ok && detail.Op == opPort && fault.KindOf(failed) == fault.Unavailable {
				return &fault.Error{Kind: fault.Unavailable, Err: errors.Join(ErrNoListener, failed), Hint: fault.HintOf(failed)}
			}
		}
	}
	return failed
}
