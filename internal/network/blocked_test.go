package network

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// flood sends data until the connection ends.
func flood(c net.Conn) {
	for b := make([]byte, 1<<16); ; {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// TestGuestThatStopsReading checks that a machine can't keep its connections and published ports by
// reading nothing from its link.
func TestGuestThatStopsReading(t *testing.T) {
	const connections = 20
	g := newGuest(t, nil, nil, nil)
	ended := make(chan struct{}, connections)
	g.serveTCP(example+":80", func(c *net.TCPConn) {
		flood(c)
		ended <- struct{}{}
	})
	l := g.listen(8080)
	port, err := g.network.Publish(0, 8080)
	if err != nil {
		t.Fatal(err)
	}
	for range connections {
		g.connected(example + ":80")
	}
	var clients sync.WaitGroup
	for range connections {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port.Host))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		go flood(c)
		clients.Go(func() { io.Copy(io.Discard, c) })
	}
	release := make(chan struct{})
	defer close(release)
	g.mu.Lock()
	g.frames = func([]byte) { <-release }
	g.mu.Unlock()
	time.Sleep(500 * time.Millisecond) // the link is full
	returns := func(what string, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		select {
		case <-done:
		case <-time.After(testenv.Patience):
			t.Fatalf("%s waits for the machine", what)
		}
	}
	returns("Connections", func() { g.network.Connections() })
	returns("SetPolicy", func() { g.network.SetPolicy(egress.Off()) })
	returns("the end of the connections", func() {
		for range connections {
			<-ended
		}
	})
	returns("closing the port", port.Close)
	returns("the end of the clients", clients.Wait)
	returns("closing the network", func() { g.network.Close() })
}
