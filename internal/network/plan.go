package network

import (
	"crypto/sha256"
	"net"
	"net/netip"
)

// MTU is the largest IP packet on a machine's link, in bytes. The link is a socket of the host's: the larger a packet, the less it costs.
const MTU = 65520

// Plan is who is who on the link of one machine, which is alone there with its gateway.
type Plan struct {
	MAC        net.HardwareAddr // the machine's
	GatewayMAC net.HardwareAddr
	Address    netip.Prefix // the machine's, with the network that it is in
	Gateway    netip.Addr   // the way to everywhere, and the name server
	Address6   netip.Prefix
	Gateway6   netip.Addr
}

// The addresses are the same in every machine: each is alone on its link, and one that is restored has them already. Of the private ones these are used least by
// what may be inside a machine: containers, clusters, tunnels.
var (
	address4 = netip.MustParsePrefix("10.188.112.2/24")
	gateway4 = netip.MustParseAddr("10.188.112.1")
	address6 = netip.MustParsePrefix("fd70:7972:6f00::2/64")
	gateway6 = netip.MustParseAddr("fd70:7972:6f00::1")
)

var gatewayMAC = net.HardwareAddr{2, 0x70, 0x79, 0x72, 0x6f, 1}

// NewPlan makes the plan for a machine by its id: always the same for one, and with another MAC for each.
func NewPlan(id string) Plan {
	h := sha256.Sum256([]byte("network of " + id))
	mac := append(net.HardwareAddr{h[0]&^1 | 2}, h[1:6]...) // locally administered
	return Plan{MAC: mac, GatewayMAC: gatewayMAC, Address: address4, Gateway: gateway4, Address6: address6, Gateway6: gateway6}
}
