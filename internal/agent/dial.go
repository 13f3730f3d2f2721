package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/content"
)

// dialPath is the path of the call that connects to a TCP port of the machine.
const dialPath = "/dial"

// dialBuffer is the size of the buffer for each direction, in bytes.
const dialBuffer = 32 << 10

// connectPort connects to a loopback address. It copies the request body to the connection, and
// data from the connection to the response body. At the end of the request body, the program reads
// the end of the connection, and can still send. The connection ends when the program closes it or
// the caller cancels the call.
func (s *Server) connectPort(w *content.Answer, r *http.Request) error {
	to, err := netip.ParseAddrPort(r.URL.Query().Get("address"))
	if err != nil || !to.Addr().IsLoopback() || to.Port() == 0 {
		return invalid("the address must be a loopback address with a port")
	}
	conn, err := dial(r.Context(), to.String())
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(r.Context(), func() { conn.Close() })
	defer stop()
	if err := w.Begin(); err != nil { // the response header reports that the connection is open
		return err
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		if copyPlain(conn, r.Body) == nil {
			conn.(*net.TCPConn).CloseWrite()
		} else {
			conn.Close()
		}
	})
	copyPlain(flusher{w}, conn)
	r.Body.Close() // unblocks the other copy
	sending.Wait()
	return nil
}

// copyPlain copies with a small buffer, because machines have little memory.
func copyPlain(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, dialBuffer))
	return err
}
