package network

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestResetConnections gives a machine a new network, as happens when the machine is restored from
// a saved state. The machine's connections must block until they are reset.
func TestResetConnections(t *testing.T) {
	g := newGuest(t, zone{}, nil, nil)
	wait := func(c *net.TCPConn) { io.Copy(io.Discard, c) }
	six := "[2606:2800:220:1::1]:443"
	g.serveTCP(example+":80", wait)
	g.serveTCP(six, wait)
	l := g.listen(8080)
	port, err := g.network.Publish(0, 8080)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port.Host)).String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	inside, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	conns := []net.Conn{g.connected(example + ":80"), g.connected(six), inside}
	for len(g.network.Open()) < 2 { // waits until both ends are established, so that no packet is retransmitted
		time.Sleep(time.Millisecond)
	}
	all := g.network.Connections()
	want := []Connection{{netip.MustParseAddrPort(example + ":80"), portOn(conns[0])}, {netip.MustParseAddrPort(six), portOn(conns[1])}}
	for _, c := range want {
		if !slices.Contains(all, c) {
			t.Errorf("%+v is not among %+v", c, all)
		}
	}
	text, err := json.Marshal(all)
	var kept []Connection
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || !slices.Equal(kept, all) || len(all) != len(conns) {
		t.Errorf("%+v became %+v: %v", all, kept, err)
	}

	g.serve(zone{}, nil, nil)
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !late(err) {
			t.Errorf("connection %d ended unexpectedly: %v", i, err)
		}
	}
	g.network.ResetConnections(append(kept, Connection{}, Connection{netip.MustParseAddrPort("1.2.3.4:5"), 6})) // includes connections that do not exist
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(testenv.Patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || late(err) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	g.connected(example + ":80")
}

func late(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func portOn(c net.Conn) uint16 {
	return netip.MustParseAddrPort(c.LocalAddr().String()).Port()
}
