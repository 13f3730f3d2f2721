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

// NewPlan makes the plan for a machine by its id: always the same for one, and with another MAC and other addresses for each.
func NewPlan(id string) Plan {
	h := sha256.Sum256([]byte("network of " + id))
	// Of the private addresses these are used least by what may be inside a machine: containers, clusters, tunnels.
	subnet := [4]byte{10, 160 + h[0]%64, h[1], 0}
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{subnet[0], subnet[1], subnet[2], last}) }
	at6 := func(last byte) netip.Addr {
		a := [16]byte{0: 0xfd, 15: last} // RFC 4193: a random network of one's own
		copy(a[1:8], h[2:9])
		return netip.AddrFrom16(a)
	}
	mac := func(b []byte) net.HardwareAddr { return append(net.HardwareAddr{b[0]&^1 | 2}, b[1:6]...) } // locally administered
	return Plan{
		MAC: mac(h[10:16]), GatewayMAC: mac(h[16:22]),
		Address: netip.PrefixFrom(at(2), 24), Gateway: at(1), Address6: netip.PrefixFrom(at6(2), 64), Gateway6: at6(1),
	}
}
