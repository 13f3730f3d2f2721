package cli

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// TestConnectionsWithoutRequest checks which connections a server closes when it ends: only
// connections that have sent no request. Connections with a request end with their responses.
func TestConnectionsWithoutRequest(t *testing.T) {
	var c connections
	open := func() (server, client net.Conn) {
		server, client = net.Pipe()
		t.Cleanup(func() { server.Close(); client.Close() })
		c.track(server, http.StateNew)
		return server, client
	}
	closed := func(client net.Conn) bool {
		_, err := client.Read(make([]byte, 1))
		return err == io.EOF
	}
	_, unused := open()
	active, client := open()
	c.track(active, http.StateActive)
	c.close()
	if !closed(unused) {
		t.Error("a connection without a request is open")
	}
	if _, late := open(); !closed(late) {
		t.Error("a connection that came during the shutdown is open")
	}
	go active.Write([]byte("x"))
	if closed(client) {
		t.Error("a connection with a request was closed")
	}
}
