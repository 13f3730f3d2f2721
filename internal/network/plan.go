package network

import (
	"crypto/sha256"
	"net"
	"net/netip"
)

// MTU is the maximum size of an IP packet on a machine's link, in bytes. The link is a socket on
// the host, so larger packets need fewer system calls.
const MTU = 65520

// Plan contains the addresses on a machine's link. The link connects only the machine and its
// gateway.
type Plan struct {
	MAC        net.HardwareAddr // of the machine
	GatewayMAC net.HardwareAddr
	Address    netip.Prefix // address of the machine, with the network's prefix length
	Gateway    netip.Addr   // the default route, and the name server
	Address6   netip.Prefix
	Gateway6   netip.Addr
}

// All machines have the same addresses. This is possible because each machine is alone on its link.
// It lets a restored machine use its old configuration. These private ranges are unlikely to
// collide with the networks of containers, clusters and VPNs inside a machine.
var (
	address4 = netip.MustParsePrefix("10.188.112.2/24")
	gateway4 = netip.MustParseAddr("10.188.112.1")
	address6 = netip.MustParsePrefix("fd70:7972:6f00::2/64")
	gateway6 = netip.MustParseAddr("fd70:7972:6f00::1")
)

var gatewayMAC = net.HardwareAddr{2, 0x70, 0x79, 0x72, 0x6f, 1}

// NewPlan derives the plan from a machine's id. The MAC differs between machines.
func NewPlan(id string) Plan {
	h := sha256.Sum256([]byte("network of " + id))
	mac := append(net.HardwareAddr{h[0]&^1 | 2}, h[1:6]...) // locally administered
	return Plan{MAC: mac, GatewayMAC: gatewayMAC, Address: address4, Gateway: gateway4, Address6: address6, Gateway6: gateway6}
}
