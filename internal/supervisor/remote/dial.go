package remote

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// DialPath is the path of the request that turns a connection to the supervisor's socket into a
// connection to a port of the machine. The supervisor answers 101 Switching Protocols, or an error
// as it does for file requests.
const DialPath = "/machine/dial"

// DialPort connects to a TCP port on a loopback address of the workspace's machine. ctx limits only
// the dialing. While the connection is open, the workspace counts as used, so it is not paused
// automatically. The connection has a method CloseWrite. The error has kind Unavailable if no
// program listens on the port.
func DialPort(ctx context.Context, f Folder, port int) (net.Conn, error) {
	use, err := f.use(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := reach(ctx, f)
	if err != nil {
		use.Release()
		return nil, err
	}
	c := &portConn{duplex: conn.(duplex), release: sync.OnceFunc(use.Release)}
	if err := c.upgrade(ctx, port); err != nil {
		c.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fault.Wrap(err, "connect to port", strconv.Itoa(port))
	}
	return c, nil
}

// portConn is a connection to a port of a machine. After CloseWrite it can still be read.
type portConn struct {
	duplex
	received *bufio.Reader
	release  func()
}

// duplex is a connection whose directions can be closed one after the other.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// upgrade asks the supervisor to connect c to a port.
func (c *portConn) upgrade(ctx context.Context, port int) error {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req, err := http.NewRequest(http.MethodGet, "http://supervisor"+DialPath+"?port="+strconv.Itoa(port), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(c.duplex); err != nil {
		return gone(err)
	}
	c.received = bufio.NewReader(c.duplex)
	resp, err := http.ReadResponse(c.received, req)
	if err != nil {
		return gone(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return refusal(resp)
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

func (c *portConn) Read(b []byte) (int, error) { return c.received.Read(b) }

func (c *portConn) Close() error {
	err := c.duplex.Close()
	c.release()
	return err
}
