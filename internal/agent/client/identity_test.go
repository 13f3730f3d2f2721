package client

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func aNetwork() *Network {
	return &Network{
		MAC: net.HardwareAddr{2, 0, 10, 170, 3, 2}, Address: netip.MustParsePrefix("10.170.3.2/24"), Gateway: netip.MustParseAddr("10.170.3.1"),
		Address6: netip.MustParsePrefix("fd00::2/64"), Gateway6: netip.MustParseAddr("fd00::1"), DNS: []netip.Addr{netip.MustParseAddr("10.170.3.1")}, MTU: 1500,
	}
}

// TestNetworkRoundTrip checks that the agent decodes a network without changes.
func TestNetworkRoundTrip(t *testing.T) {
	both, four := aNetwork(), aNetwork()
	four.Address6, four.Gateway6 = netip.Prefix{}, netip.Addr{}
	for _, n := range []*Network{both, four} {
		m := n.message()
		l, err := agent.LinkOf(m)
		want := agent.Link{
			MAC: [6]byte(n.MAC), Address: n.Address, Address6: n.Address6, Gateway: n.Gateway, Gateway6: n.Gateway6, MTU: n.MTU,
		}
		if err != nil || l != want || !slices.Equal(m.Dns, []string{"10.170.3.1"}) {
			t.Errorf("%+v became %+v, %v, %v", n, l, m.Dns, err)
		}
	}
	if m := (*Network)(nil).message(); m != nil {
		t.Errorf("message of a nil network: got %v, want nil", m)
	}
	if _, err := agent.LinkOf((&Network{MTU: -1}).message()); err == nil {
		t.Error("an empty one was accepted")
	}
}

// TestRenewNetworkOnHost checks Renew with a network on the host. Invalid networks must
// fail with Invalid, and valid ones with Unsupported.
func TestRenewNetworkOnHost(t *testing.T) {
	ctx := within(t)
	c, err := Dial(ctx, startAgent(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := NewIdentity("host")
	id.Network = aNetwork()
	if err := c.Renew(ctx, id); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a network: %v", err)
	}
	id.Network.MTU = 100
	if err := c.Renew(ctx, id); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad network: %v", err)
	}
	if _, err := c.Stat(ctx, "/"); fault.KindOf(err) != fault.Precondition {
		t.Errorf("it is renewed nevertheless: %v", err)
	}
	id.Network = nil
	if err := c.Renew(ctx, id); err != nil {
		t.Error(err)
	}
}
