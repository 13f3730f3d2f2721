package agent

import (
	"errors"
	"fmt"
	"net/netip"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Limits of a network. minMTU is the minimum that IPv6 requires.
const (
	minMTU         = 1280
	maxMTU         = 65535
	maxNameServers = 3 // the limit of resolv.conf(5)
)

// Link is the configuration of a machine's network interface.
type Link struct {
	MAC               [6]byte
	Address, Address6 netip.Prefix // address of the machine, with prefix length; Address6 and Gateway6 are invalid without IPv6
	Gateway, Gateway6 netip.Addr
	MTU               int
}

// LinkOf checks the network of a Renew request and returns it as a Link.
func LinkOf(n *agentv1.Network) (Link, error) {
	l := Link{MTU: int(n.Mtu)}
	if copy(l.MAC[:], n.Mac); len(n.Mac) != len(l.MAC) || l.MAC == [6]byte{} || l.MAC[0]&1 != 0 {
		return Link{}, errors.New("the MAC address must be a unicast address of 6 bytes")
	}
	if n.Mtu < minMTU || n.Mtu > maxMTU {
		return Link{}, fmt.Errorf("the MTU must be %d to %d", minMTU, maxMTU)
	}
	var err error
	if l.Address, l.Gateway, err = parseAddress(n.Address, n.Gateway); err != nil {
		return Link{}, err
	}
	if !l.Address.Addr().Is4() {
		return Link{}, fmt.Errorf("%s is not an IPv4 address", l.Address)
	}
	if n.Address6 != "" || n.Gateway6 != "" {
		if l.Address6, l.Gateway6, err = parseAddress(n.Address6, n.Gateway6); err != nil {
			return Link{}, err
		}
		if a := l.Address6.Addr(); !a.Is6() || a.Is4In6() {
			return Link{}, fmt.Errorf("%s is not an IPv6 address", l.Address6)
		}
	}
	if len(n.Dns) < 1 || len(n.Dns) > maxNameServers {
		return Link{}, fmt.Errorf("there must be 1 to %d name servers", maxNameServers)
	}
	for _, server := range n.Dns {
		if a, err := netip.ParseAddr(server); err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
			return Link{}, fmt.Errorf("%q is not the address of a name server", server)
		}
	}
	return l, nil
}

// parseAddress parses an address with prefix length, and a gateway in the network of that address.
func parseAddress(address, gateway string) (netip.Prefix, netip.Addr, error) {
	a, err := netip.ParsePrefix(address)
	if err != nil || a.Bits() == 0 || !a.Addr().IsGlobalUnicast() {
		return a, netip.Addr{}, fmt.Errorf("%q is not an address in a network", address)
	}
	g, err := netip.ParseAddr(gateway)
	if err != nil || !g.IsGlobalUnicast() || !a.Contains(g) || g == a.Addr() {
		return a, g, fmt.Errorf("%q is not a gateway for %s", gateway, a)
	}
	return a, g, nil
}
