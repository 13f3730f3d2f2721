package daemon

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/socket"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// maxDialed is the largest number of open connections to ports of the machine.
const maxDialed = 256

// switching is the HTTP response that precedes the data of the port.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

// handleDial serves requests for connections to TCP ports of the machine.
func (s *server) handleDial(mux *http.ServeMux) {
	open := make(chan struct{}, maxDialed)
	mux.HandleFunc("GET "+remote.DialPath, func(w http.ResponseWriter, r *http.Request) {
		content.Serve(w, encodeError, func(w *content.Answer) error {
			select {
			case open <- struct{}{}:
				defer func() { <-open }()
			default:
				return fault.Newf(fault.Exhausted, "%d connections are open, which is the maximum", maxDialed)
			}
			done, err := s.beginLong(r.Context())
			if err != nil {
				return err
			}
			defer done()
			return s.connectPort(w, r)
		})
	})
}

// connectPort connects a caller to a port, until one side closes the connection. It returns an
// error only if the connection can't be established.
func (s *server) connectPort(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err != nil || port == 0 || r.ProtoMajor != 1 {
		return fault.Newf(fault.Invalid, "a connection needs a port, and HTTP/1.1")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	stop := context.AfterFunc(r.Context(), cancel)
	conn, err := dialLoopback(ctx, s.daemon.machine.Agent, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop() // after Hijack, the end of the request no longer means that the caller has disconnected
	caller, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer caller.Close()
	go func() { // http.Server no longer closes the connection of a caller that does not read
		select {
		case <-s.over:
			caller.Close()
		case <-ctx.Done():
		}
	}()
	if _, err := io.WriteString(caller, switching); err != nil {
		return nil
	}
	go func() {
		io.Copy(conn, struct{ io.Reader }{buffered})
		conn.CloseWrite()
		if c, ok := caller.(syscall.Conn); ok {
			socket.AwaitHangup(c) // the caller can still read until it hangs up
		}
		time.AfterFunc(closePatience, cancel) // needed if the program does not close the connection
	}()
	io.Copy(struct{ io.Writer }{caller}, conn)
	return nil
}

// dialLoopback connects to a port on 127.0.0.1. If no program listens there, it tries ::1.
func dialLoopback(ctx context.Context, agent *client.Client, port uint16) (*client.Conn, error) {
	conn, err := agent.DialPort(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if fault.KindOf(err) != fault.Unavailable {
		return conn, err
	}
	if conn6, err6 := agent.DialPort(ctx, netip.AddrPortFrom(netip.IPv6Loopback(), port)); err6 == nil {
		return conn6, nil
	}
	return nil, err
}
