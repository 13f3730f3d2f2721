package network

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestHostAddresses checks that the broadcast and anycast addresses of the host's networks count as
// addresses of the host.
func TestHostAddresses(t *testing.T) {
	for of, want := range map[string]string{
		"45.45.46.5/24": "[45.45.46.5 45.45.46.0 45.45.46.255]", "45.45.46.5/30": "[45.45.46.5 45.45.46.4 45.45.46.7]", "45.45.46.5/31": "[45.45.46.5]", "45.45.46.5/32": "[45.45.46.5]",
		"45.45.200.5/17": "[45.45.200.5 45.45.128.0 45.45.255.255]", "2a0a::45/128": "[2a0a::45]", "2a0a::45/127": "[2a0a::45]",
		"2a0a:1:2:3:4::5/64": "[2a0a:1:2:3:4::5 2a0a:1:2:3:: 2a0a:1:2:3:ffff:ffff:ffff:ffff]",
	} {
		ip, n, err := net.ParseCIDR(of)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip // 16 bytes for an IPv4 address with a mask of 4 bytes, as net.InterfaceAddrs returns it
		if got := fmt.Sprint(ownOf(n)); got != want {
			t.Errorf("%s: %s, not %s", of, got, want)
		}
	}
}

// TestQueriesFromManyPorts checks that a program can look up many names without reaching a limit.
func TestQueriesFromManyPorts(t *testing.T) {
	g := newGuest(t, zone{"example.com": example}, nil, nil)
	for i := range 4 * maxAsking {
		if m := g.ask(g.plan.Gateway.String()+":53", "example.com.", dnsmessage.TypeA); len(m.Answers) != 1 {
			t.Fatalf("question %d: %+v", i, m)
		}
	}
}

func TestCheckPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1111]:5000": true,
		"127.0.0.1:443": false, "10.0.0.5:8500": false, "169.254.169.254:80": false, "[::ffff:10.0.0.5]:443": false,
		"[64:ff9b::a00:5]:443": false, "[fe80::1%lo]:443": false, "[::1]:443": false, "0.0.0.0:80": false,
	} {
		if err := CheckPublic(netip.MustParseAddrPort(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
