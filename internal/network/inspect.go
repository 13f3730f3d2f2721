package network

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/pyro-mcp/pyro/internal/network/dhcp"
)

// verdict is the decision about a frame from the machine.
type verdict int

const (
	dropped     verdict = iota // discarded: link noise, or malformed
	accepted                   // delivered to the stack
	refused                    // discarded and recorded
	echoRequest                // an echo request to an address beyond the gateway
	dhcpRequest                // a DHCP request
)

// packet contains the parts of a frame that inspect needs. Its slices alias the frame.
type packet struct {
	verdict  verdict
	reason   string // why the packet was refused
	protocol string
	to       netip.AddrPort
	body     []byte // the payload of the IP packet
	ttl      uint8
}

// inspect decides what happens to a frame before it reaches the stack. It accepts TCP and UDP
// packets from the machine's own address that have no IP options, such as source routing. The
// policy decides about their connections later. inspect also accepts echo requests and the packets
// that the link itself needs.
func (p Plan) inspect(frame []byte) packet {
	body := frame[header.EthernetMinimumSize:]
	switch header.Ethernet(frame).Type() {
	case header.ARPProtocolNumber:
		return p.inspectARP(body)
	case header.IPv4ProtocolNumber:
		return p.inspect4(body)
	case header.IPv6ProtocolNumber:
		return p.inspect6(body)
	}
	return packet{}
}

// inspectARP accepts requests for the gateway's address. The link has no other host.
func (p Plan) inspectARP(b []byte) packet {
	arp := header.ARP(b)
	if len(b) < header.ARPSize || !arp.IsValid() || addr(arp.ProtocolAddressTarget()) != p.Gateway {
		return packet{}
	}
	return packet{verdict: accepted}
}

func (p Plan) inspect4(b []byte) packet {
	ip := header.IPv4(b)
	if !ip.IsValid(len(b)) || !ip.IsChecksumValid() {
		return packet{}
	}
	from := addr(ip.SourceAddressSlice())
	k := packet{protocol: protocolName(ip.TransportProtocol()), ttl: ip.TTL(), body: b[ip.HeaderLength():ip.TotalLength()]}
	first := ip.FragmentOffset() == 0
	k.to = netip.AddrPortFrom(addr(ip.DestinationAddressSlice()), portOf(k, first))
	fragment := !first || ip.More()
	switch {
	case int(ip.HeaderLength()) > header.IPv4MinimumSize:
		return k.refuse("it has IP options")
	case k.protocol == "udp" && !fragment && k.to.Port() == dhcp.ServerPort && (from == p.Address.Addr() || from == netip.IPv4Unspecified()):
		k.verdict = dhcpRequest
	case from != p.Address.Addr():
		return k.refuse("its source address is not the machine's")
	case onlyInsideHost(k.to.Addr()):
		return k.refuse("its destination is not an address on a network")
	case k.to.Addr().IsMulticast(), k.to.Addr() == broadcast, k.to.Addr() == p.last():
		return k.noise("multicast")
	case k.protocol == "tcp", k.protocol == "udp":
		k.verdict = accepted
	case k.protocol == "icmp":
		return p.inspectICMP(k, fragment, k.to.Addr() == p.Gateway)
	default:
		return k.refuse("it is neither TCP, UDP nor an echo request")
	}
	return k
}

// onlyInsideHost reports whether an address is valid only inside a host. The stack would drop
// packets to such addresses without a record.
func onlyInsideHost(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() || a.Is4In6() }

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// last returns the directed broadcast address of the link. The link's network is a /24.
func (p Plan) last() netip.Addr {
	a := p.Address.Masked().Addr().As4()
	a[3] = 255
	return netip.AddrFrom4(a)
}

// inspectICMP accepts ICMP echo requests and ICMP error messages.
func (p Plan) inspectICMP(k packet, fragment, gateway bool) packet {
	if fragment || len(k.body) < header.ICMPv4MinimumSize {
		return k.refuse("it is a fragment of an ICMP packet")
	}
	switch header.ICMPv4(k.body).Type() {
	case header.ICMPv4Echo:
		if checksum.Checksum(k.body, 0) != 0xffff { // invalid checksum: the host would send the request with a correct one
			return packet{}
		}
		k.verdict = echoRequest
		if gateway {
			k.verdict = accepted
		}
	case header.ICMPv4DstUnreachable, header.ICMPv4TimeExceeded, header.ICMPv4ParamProblem:
		k.verdict = accepted
	}
	return k
}

func (p Plan) inspect6(b []byte) packet {
	ip := header.IPv6(b)
	if !ip.IsValid(len(b)) {
		return packet{}
	}
	from, to := addr(ip.SourceAddressSlice()), addr(ip.DestinationAddressSlice())
	k := packet{protocol: protocolName(tcpip.TransportProtocolNumber(ip.NextHeader())), ttl: ip.HopLimit(), body: b[header.IPv6MinimumSize:][:ip.PayloadLength()]}
	k.to = netip.AddrPortFrom(to, portOf(k, true))
	switch {
	case onlyInsideHost(to):
		return k.refuse("its destination is not an address on a network")
	case k.protocol == "icmpv6":
		return p.inspectICMP6(k, from)
	case from != p.Address6.Addr() && from.IsLinkLocalUnicast(), from.IsUnspecified(), to.IsMulticast():
		return k.noise("multicast")
	case k.protocol == "tcp", k.protocol == "udp":
		if from != p.Address6.Addr() {
			return k.refuse("its source address is not the machine's")
		}
		k.verdict = accepted
		return k
	}
	return k.refuse("it is neither TCP, UDP nor an echo request")
}

// inspectICMP6 accepts ICMPv6 echo requests, error messages and neighbor discovery for the gateway.
func (p Plan) inspectICMP6(k packet, from netip.Addr) packet {
	if len(k.body) < header.ICMPv6MinimumSize {
		return packet{}
	}
	mine := from == p.Address6.Addr()
	icmp := header.ICMPv6(k.body)
	if header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: icmp, Src: address(from), Dst: address(k.to.Addr())}) != icmp.Checksum() {
		return packet{}
	}
	switch icmp.Type() {
	case header.ICMPv6EchoRequest:
		switch {
		case !mine:
		case k.to.Addr() == p.Gateway6:
			k.verdict = accepted
		case k.to.Addr().IsMulticast():
		default:
			k.verdict = echoRequest
		}
	case header.ICMPv6DstUnreachable, header.ICMPv6PacketTooBig, header.ICMPv6TimeExceeded, header.ICMPv6ParamProblem:
		if mine {
			k.verdict = accepted
		}
	case header.ICMPv6NeighborSolicit:
		if body := icmp.MessageBody(); len(body) >= header.NDPNSMinimumSize && addr(body[4:20]) == p.Gateway6 {
			k.verdict = accepted
		}
	case header.ICMPv6NeighborAdvert:
		k.verdict = accepted
	}
	return k
}

func (k packet) refuse(reason string) packet {
	k.verdict, k.reason = refused, reason
	return k
}

// noise refuses a packet. If the packet belongs to a well-known discovery protocol, noise drops it
// without a record, because systems send such packets on their own.
func (k packet) noise(kind string) packet {
	switch k.to.Port() {
	case 0, 67, 123, 137, 138, 546, 547, 1900, 3702, 5353, 5355:
		k.verdict = dropped
		return k
	}
	return k.refuse(kind + " address")
}

func protocolName(n tcpip.TransportProtocolNumber) string {
	switch n {
	case header.TCPProtocolNumber:
		return "tcp"
	case header.UDPProtocolNumber:
		return "udp"
	case header.ICMPv4ProtocolNumber:
		return "icmp"
	case header.ICMPv6ProtocolNumber:
		return "icmpv6"
	}
	return "ip"
}

// portOf returns the destination port of a TCP or UDP packet. It returns 0 for other packets and
// for later fragments.
func portOf(k packet, first bool) uint16 {
	if (k.protocol != "tcp" && k.protocol != "udp") || !first || len(k.body) < 4 {
		return 0
	}
	return binary.BigEndian.Uint16(k.body[2:])
}

// addr converts 4 or 16 bytes to an address.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
