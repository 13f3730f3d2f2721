package network

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestAnswerBeforeEndOfUpload checks that a client gets the complete answer of a server that closes
// the connection without reading the whole request.
func TestAnswerBeforeEndOfUpload(t *testing.T) {
	const size = 30_000
	g := newGuest(t, nil, nil, nil)
	serve := func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1000))
		c.Write(make([]byte, size))
	}
	g.serveTCP(example+":80", func(c *net.TCPConn) { serve(c) })
	l := g.listen(8080)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	port, err := g.network.Publish(0, 8080)
	if err != nil {
		t.Fatal(err)
	}
	for what, dial := range map[string]func() (net.Conn, error){
		"egress":         func() (net.Conn, error) { return g.dial(example + ":80") },
		"published port": func() (net.Conn, error) { return net.Dial("tcp", fmt.Sprint("127.0.0.1:", port.Host)) },
	} {
		for i := range 30 {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(testenv.Patience))
			for range 16 {
				if _, err := c.Write(make([]byte, 64<<10)); err != nil {
					break
				}
			}
			n, _ := io.Copy(io.Discard, c)
			c.Close()
			if n != size {
				t.Errorf("%s: connection %d: got %d bytes", what, i, n)
				break
			}
		}
	}
}
