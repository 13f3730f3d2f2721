package agent

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// aNetwork returns a valid network.
func aNetwork() *agentv1.Network {
	return &agentv1.Network{
		Mac: []byte{2, 0, 10, 170, 3, 2}, Address: "10.170.3.2/24", Gateway: "10.170.3.1", Address6: "fd00:170:3::2/64", Gateway6: "fd00:170:3::1",
		Dns: []string{"10.170.3.1", "fd00:170:3::1", "1.1.1.1"}, Mtu: 1500,
	}
}

func TestLinkOf(t *testing.T) {
	want := Link{
		[6]byte{2, 0, 10, 170, 3, 2}, netip.MustParsePrefix("10.170.3.2/24"), netip.MustParsePrefix("fd00:170:3::2/64"),
		netip.MustParseAddr("10.170.3.1"), netip.MustParseAddr("fd00:170:3::1"), 1500,
	}
	if l, err := LinkOf(aNetwork()); err != nil || l != want {
		t.Errorf("%+v, %v", l, err)
	}
	for name, change := range map[string]func(*agentv1.Network){
		"only IPv4":      func(n *agentv1.Network) { n.Address6, n.Gateway6 = "", "" },
		"a small MTU":    func(n *agentv1.Network) { n.Mtu = 1280 },
		"a large MTU":    func(n *agentv1.Network) { n.Mtu = 65535 },
		"a network of 2": func(n *agentv1.Network) { n.Address, n.Gateway = "10.0.0.0/31", "10.0.0.1" },
		"one server":     func(n *agentv1.Network) { n.Dns = n.Dns[:1] },
	} {
		n := aNetwork()
		if change(n); !usable(n) {
			t.Errorf("%s was refused", name)
		}
	}
	for name, change := range map[string]func(*agentv1.Network){
		"nothing":                     func(n *agentv1.Network) { proto.Reset(n) },
		"no MAC":                      func(n *agentv1.Network) { n.Mac = nil },
		"a short MAC":                 func(n *agentv1.Network) { n.Mac = n.Mac[:5] },
		"a long MAC":                  func(n *agentv1.Network) { n.Mac = append(n.Mac, 0) },
		"a MAC of zeroes":             func(n *agentv1.Network) { n.Mac = make([]byte, 6) },
		"a group's MAC":               func(n *agentv1.Network) { n.Mac[0] = 3 },
		"no address":                  func(n *agentv1.Network) { n.Address = "" },
		"an address without its bits": func(n *agentv1.Network) { n.Address = "10.170.3.2" },
		"an address of no bits":       func(n *agentv1.Network) { n.Address = "10.170.3.2/0" },
		"an address of many bits":     func(n *agentv1.Network) { n.Address = "10.170.3.2/33" },
		"loopback":                    func(n *agentv1.Network) { n.Address, n.Gateway = "127.0.0.2/8", "127.0.0.1" },
		"IPv6 for IPv4":               func(n *agentv1.Network) { n.Address, n.Gateway = n.Address6, n.Gateway6 },
		"IPv4 for IPv6":               func(n *agentv1.Network) { n.Address6, n.Gateway6 = n.Address, n.Gateway },
		"IPv4 in IPv6":                func(n *agentv1.Network) { n.Address6, n.Gateway6 = "::ffff:10.0.0.2/120", "::ffff:10.0.0.1" },
		"no gateway":                  func(n *agentv1.Network) { n.Gateway = "" },
		"a gateway elsewhere":         func(n *agentv1.Network) { n.Gateway = "10.170.4.1" },
		"the machine as its gateway":  func(n *agentv1.Network) { n.Gateway = "10.170.3.2" },
		"IPv6 without a gateway":      func(n *agentv1.Network) { n.Gateway6 = "" },
		"a gateway without IPv6":      func(n *agentv1.Network) { n.Address6 = "" },
		"a gateway of one zone":       func(n *agentv1.Network) { n.Gateway6 += "%eth0" },
		"a small MTU":                 func(n *agentv1.Network) { n.Mtu = 1279 },
		"a large MTU":                 func(n *agentv1.Network) { n.Mtu = 65536 },
		"no server":                   func(n *agentv1.Network) { n.Dns = nil },
		"many servers":                func(n *agentv1.Network) { n.Dns = append(n.Dns, "1.0.0.1") },
		"a server's name":             func(n *agentv1.Network) { n.Dns[0] = "dns.example" },
		"more than a server":          func(n *agentv1.Network) { n.Dns[0] = "1.1.1.1\noptions x" },
		"a server of one zone":        func(n *agentv1.Network) { n.Dns[1] = "fe80::1%eth0\nx" },
		"an unspecified server":       func(n *agentv1.Network) { n.Dns[1] = "::" },
	} {
		n := aNetwork()
		if change(n); usable(n) {
			t.Errorf("%s was accepted", name)
		}
	}
}

func usable(n *agentv1.Network) bool {
	_, err := LinkOf(n)
	return err == nil
}
