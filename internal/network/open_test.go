package network

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestSetPolicy changes the policy while connections are open, in both directions.
func TestSetPolicy(t *testing.T) {
	const other = "93.184.216.35"
	g := newGuest(t, zone{"good.test": example, "other.test": other}, nil, nil)
	echo := func(c *net.TCPConn) { io.Copy(c, c) }
	g.serveTCP(example+":80", echo)
	g.serveTCP(other+":80", echo)
	g.serveUDP(other + ":123")
	g.ask(g.plan.Gateway.String()+":53", "good.test.", dnsmessage.TypeA)
	talks := func(c net.Conn) bool {
		c.SetDeadline(time.Now().Add(testenv.Patience))
		c.Write([]byte("x"))
		_, err := io.ReadFull(c, make([]byte, 1))
		return err == nil
	}
	set := func(p *egress.Policy, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		g.network.SetPolicy(p)
	}
	good, bad := g.connected(example+":80"), g.connected(other+":80")
	to, protocol := full(other + ":123")
	flow, err := gonet.DialUDP(g.stack, nil, &to, protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	if !talks(good) || !talks(bad) || !talks(flow) {
		t.Fatal("the connections do not work")
	}

	set(egress.New([]string{"good.test:80"}, nil))
	if !talks(good) {
		t.Error("a connection that is still allowed was closed")
	}
	if talks(bad) {
		t.Error("a connection that is no longer allowed is open")
	}
	g.said("tcp  "+other+" 80", "error=the network policy has changed: not allowed by any rule")
	g.said("udp  "+other+" 123", "error=the network policy has changed: not allowed by any rule")
	if open := g.network.Open(); len(open) != 1 || open[0].Name != "good.test" {
		t.Errorf("open: %+v", open)
	}
	if _, err := g.dial(other + ":80"); err == nil {
		t.Error("a new connection is allowed")
	}
	if m := g.ask(g.plan.Gateway.String()+":53", "other.test.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("a name that is no longer allowed: %v", m.RCode)
	}

	set(egress.New([]string{other}, nil))
	if talks(good) {
		t.Error("the connection is open, although only another address is allowed")
	}
	g.said("tcp good.test "+example+" 80", "error=the network policy has changed: not allowed by any rule")
	if !talks(g.connected(other + ":80")) {
		t.Error("a connection that is allowed now is refused")
	}

	set(egress.Off(), nil)
	if _, err := g.dial(other + ":80"); err == nil {
		t.Error("a connection is allowed, although the network is off")
	}
	g.said("tcp  "+other+" 80", "error=the network policy has changed: the network is off")
	if m := g.ask(g.plan.Gateway.String()+":53", "good.test.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("a name, although the network is off: %v", m.RCode)
	}
	if open := g.network.Open(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
}

// TestPolicyChangesBeforeConnectionIsOpen checks that a connection ends if the policy changes after
// it was allowed, but before it is one of the open connections.
func TestPolicyChangesBeforeConnectionIsOpen(t *testing.T) {
	g := newGuest(t, nil, nil, nil)
	g.network.SetPolicy(egress.Off())
	ended := false
	done := g.network.track(Record{Protocol: "tcp", Address: netip.MustParseAddr(example), Port: 80}, nil, func() { ended = true })
	if rec := done(); !ended || rec.Error == "" {
		t.Errorf("ended %v, %+v", ended, rec)
	}
}

// TestNamesOfConnection checks that a connection stays open if the new policy allows any of its
// names, even if the names were resolved long ago.
func TestNamesOfConnection(t *testing.T) {
	g := newGuest(t, zone{"first.test": example, "last.test": example}, []string{"first.test", "last.test"}, nil)
	g.serveTCP(example+":80", func(c *net.TCPConn) { io.Copy(c, c) })
	for _, name := range []string{"first.test.", "last.test."} {
		g.ask(g.plan.Gateway.String()+":53", name, dnsmessage.TypeA)
	}
	c := g.connected(example + ":80")
	g.network.names.mu.Lock()
	clear(g.network.names.resolved)
	g.network.names.mu.Unlock()
	p, err := egress.New([]string{"first.test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.network.SetPolicy(p)
	c.SetDeadline(time.Now().Add(testenv.Patience))
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}
