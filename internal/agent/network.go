package agent

import (
	"errors"
	"fmt"
	"net/netip"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// Bounds of a network. Less than IPv6's least does not carry it.
const (
	minMTU         = 1280
	maxMTU         = 65535
	maxNameServers = 3 // as many as a resolver asks
)

// Link is what a machine's one network interface is to be.
type Link struct {
	MAC               [6]byte
	Address, Address6 netip.Prefix // of the machine, with the bits of its network. Address6 and Gateway6 are not valid where there are none
	Gateway, Gateway6 netip.Addr
	MTU               int
}

// LinkOf checks a network as its owner tells it, and gives its link.
func LinkOf(n *agentv1.Network) (Link, error) {
	l := Link{MTU: int(n.Mtu)}
	if copy(l.MAC[:], n.Mac); len(n.Mac) != len(l.MAC) || l.MAC == [6]byte{} || l.MAC[0]&1 != 0 {
		return Link{}, errors.New("the MAC must be 6 bytes, of one station")
	}
	if n.Mtu < minMTU || n.Mtu > maxMTU {
		return Link{}, fmt.Errorf("the MTU must be %d to %d", minMTU, maxMTU)
	}
	var err error
	if l.Address, l.Gateway, err = station(n.Address, n.Gateway); err != nil {
		return Link{}, err
	}
	if !l.Address.Addr().Is4() {
		return Link{}, fmt.Errorf("%s is not of IPv4", l.Address)
	}
	if n.Address6 != "" || n.Gateway6 != "" {
		if l.Address6, l.Gateway6, err = station(n.Address6, n.Gateway6); err != nil {
			return Link{}, err
		}
		if a := l.Address6.Addr(); !a.Is6() || a.Is4In6() {
			return Link{}, fmt.Errorf("%s is not of IPv6", l.Address6)
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

// station parses an address, with the bits of its network, and the gateway in that.
func station(address, gateway string) (netip.Prefix, netip.Addr, error) {
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
