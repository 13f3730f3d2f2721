package network

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/pyro-mcp/pyro/internal/network/dhcp"
)

// fate is what becomes of a frame that a machine sends.
type fate int

const (
	dropped fate = iota // nothing: noise of the link, or what is no packet at all
	taken               // the stack gets it
	refused             // nothing, and it is recorded
	echoed              // it asks somebody in the world for an echo
	leased              // it asks for an address
)

// packet is what of a frame matters for its fate. The slices are parts of the frame.
type packet struct {
	fate     fate
	reason   string // why it is refused
	protocol string
	to       netip.AddrPort
	body     []byte // what comes after the IP header
	ttl      uint8
}

// inspect decides on a frame before the stack sees it. What gets through are TCP and UDP packets of the machine's own address, without options by which a packet
// chooses its way, whose connections are decided on when they are made; what a link needs; and echoes.
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

// inspectARP lets the machine ask for its gateway, and for nobody else: it is alone.
func (p Plan) inspectARP(b []byte) packet {
	arp := header.ARP(b)
	if len(b) < header.ARPSize || !arp.IsValid() || addr(arp.ProtocolAddressTarget()) != p.Gateway {
		return packet{}
	}
	return packet{fate: taken}
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
		k.fate = leased
	case from != p.Address.Addr():
		return k.refuse("it is from an address that is not the machine's")
	case nowhere(k.to.Addr()):
		return k.refuse("it is for an address that is never on a link")
	case k.to.Addr().IsMulticast(), k.to.Addr() == broadcast, k.to.Addr() == p.last():
		return k.noise("multicast")
	case k.protocol == "tcp", k.protocol == "udp":
		k.fate = taken
	case k.protocol == "icmp":
		return p.inspectICMP(k, fragment, k.to.Addr() == p.Gateway)
	default:
		return k.refuse("it is neither TCP, UDP nor an echo")
	}
	return k
}

// nowhere tells the addresses that mean something within a computer only. The stack would drop what is for them, and nobody knew.
func nowhere(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() || a.Is4In6() }

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// last is the address at which all of the link's network are meant.
func (p Plan) last() netip.Addr {
	a := p.Address.Masked().Addr().As4()
	a[3] = 255
	return netip.AddrFrom4(a)
}

// inspectICMP lets echoes through, and what tells of errors.
func (p Plan) inspectICMP(k packet, fragment, gateway bool) packet {
	if fragment || len(k.body) < header.ICMPv4MinimumSize {
		return k.refuse("it is a piece of an ICMP packet")
	}
	switch header.ICMPv4(k.body).Type() {
	case header.ICMPv4Echo:
		if checksum.Checksum(k.body, 0) != 0xffff { // the host would ask with a right one
			return packet{}
		}
		k.fate = echoed
		if gateway {
			k.fate = taken
		}
	case header.ICMPv4DstUnreachable, header.ICMPv4TimeExceeded, header.ICMPv4ParamProblem:
		k.fate = taken
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
	case nowhere(to):
		return k.refuse("it is for an address that is never on a link")
	case k.protocol == "icmpv6":
		return p.inspectICMP6(k, from)
	case from != p.Address6.Addr() && from.IsLinkLocalUnicast(), from.IsUnspecified(), to.IsMulticast():
		return k.noise("multicast")
	case k.protocol == "tcp", k.protocol == "udp":
		if from != p.Address6.Addr() {
			return k.refuse("it is from an address that is not the machine's")
		}
		k.fate = taken
		return k
	}
	return k.refuse("it is neither TCP, UDP nor an echo")
}

// inspectICMP6 lets echoes through, what tells of errors, and the search for the gateway.
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
			k.fate = taken
		case k.to.Addr().IsMulticast():
		default:
			k.fate = echoed
		}
	case header.ICMPv6DstUnreachable, header.ICMPv6PacketTooBig, header.ICMPv6TimeExceeded, header.ICMPv6ParamProblem:
		if mine {
			k.fate = taken
		}
	case header.ICMPv6NeighborSolicit:
		if body := icmp.MessageBody(); len(body) >= header.NDPNSMinimumSize && addr(body[4:20]) == p.Gateway6 {
			k.fate = taken
		}
	case header.ICMPv6NeighborAdvert:
		k.fate = taken
	}
	return k
}

func (k packet) refuse(reason string) packet {
	k.fate, k.reason = refused, reason
	return k
}

// noise is refused, but what systems say to their link unasked is not recorded.
func (k packet) noise(kind string) packet {
	switch k.to.Port() {
	case 0, 67, 123, 137, 138, 546, 547, 1900, 3702, 5353, 5355:
		k.fate = dropped
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

// portOf is the port that a TCP or UDP packet is for, and 0 for others.
func portOf(k packet, first bool) uint16 {
	if (k.protocol != "tcp" && k.protocol != "udp") || !first || len(k.body) < 4 {
		return 0
	}
	return binary.BigEndian.Uint16(k.body[2:])
}

// addr is an address of 4 or 16 bytes.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
