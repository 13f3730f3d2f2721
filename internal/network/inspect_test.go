package network

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

var testPlan = NewPlan("m-test")

// frame4 returns an Ethernet frame that contains an IPv4 packet. The callback can modify the header
// before the checksum is set.
func frame4(protocol uint8, from, to netip.Addr, body []byte, options []byte, change func(header.IPv4)) []byte {
	size := header.IPv4MinimumSize + len(options)
	b := make([]byte, header.EthernetMinimumSize+size, header.EthernetMinimumSize+size+len(body))
	binary.BigEndian.PutUint16(b[12:], uint16(header.IPv4ProtocolNumber))
	b = append(b, body...)
	ip := header.IPv4(b[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(ip)), TTL: 64, Protocol: protocol, SrcAddr: address(from), DstAddr: address(to)})
	ip.SetHeaderLength(uint8(size))
	copy(ip[header.IPv4MinimumSize:], options)
	if m := header.ICMPv4(b[header.EthernetMinimumSize+size:]); protocol == uint8(header.ICMPv4ProtocolNumber) {
		m.SetChecksum(0)
		m.SetChecksum(header.ICMPv4Checksum(m, 0))
	}
	if change != nil {
		change(ip)
	}
	ip.SetChecksum(0)
	ip.SetChecksum(^ip.CalculateChecksum())
	return b
}

func frame6(next uint8, from, to netip.Addr, body []byte) []byte {
	b := make([]byte, header.EthernetMinimumSize+header.IPv6MinimumSize, header.EthernetMinimumSize+header.IPv6MinimumSize+len(body))
	binary.BigEndian.PutUint16(b[12:], uint16(header.IPv6ProtocolNumber))
	b = append(b, body...)
	ip := header.IPv6(b[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv6Fields{PayloadLength: uint16(len(body)), HopLimit: 64, SrcAddr: address(from), DstAddr: address(to)})
	ip[6] = next
	if m := header.ICMPv6(b[header.EthernetMinimumSize+header.IPv6MinimumSize:]); next == uint8(header.ICMPv6ProtocolNumber) {
		m.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: address(from), Dst: address(to)}))
	}
	return b
}

// to returns the beginning of a TCP or UDP header with the given destination port.
func to(port uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[2:], port)
	return b
}

func TestInspect(t *testing.T) {
	p := testPlan
	mine, mine6 := p.Address.Addr(), p.Address6.Addr()
	world, world6 := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:2800::1")
	group, group6 := netip.MustParseAddr("239.1.1.1"), netip.MustParseAddr("ff02::1")
	other, local := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fe80::7")
	zero := netip.IPv4Unspecified()
	echo, echo6 := make([]byte, 16), make([]byte, 16)
	echo[0], echo6[0] = byte(header.ICMPv4Echo), byte(header.ICMPv6EchoRequest)
	kind := func(n byte, six bool) []byte {
		b := make([]byte, 32)
		b[0] = n
		if six {
			copy(b[8:], p.Gateway6.AsSlice())
		}
		return b
	}
	arp := func(target netip.Addr) []byte {
		b := make([]byte, header.EthernetMinimumSize+header.ARPSize)
		binary.BigEndian.PutUint16(b[12:], uint16(header.ARPProtocolNumber))
		a := header.ARP(b[header.EthernetMinimumSize:])
		a.SetIPv4OverEthernet()
		a.SetOp(header.ARPRequest)
		copy(a.ProtocolAddressTarget(), target.AsSlice())
		return b
	}
	more := func(ip header.IPv4) { ip.SetFlagsFragmentOffset(header.IPv4FlagMoreFragments, 0) }
	rest := func(ip header.IPv4) { ip.SetFlagsFragmentOffset(0, 64) }
	const nowhere = "its destination is not an address on a network"
	broken := func(frame []byte, at int) []byte {
		frame[header.EthernetMinimumSize+at] ^= 1
		return frame
	}
	tagged := append(append([]byte{}, make([]byte, 12)...), 0x81, 0, 0, 1, 8, 0)
	for name, row := range map[string]struct {
		frame   []byte
		verdict verdict
		reason  string
	}{
		"TCP":                                   {frame4(6, mine, world, to(80), nil, nil), accepted, ""},
		"UDP":                                   {frame4(17, mine, world, to(80), nil, nil), accepted, ""},
		"a first fragment":                      {frame4(17, mine, world, to(80), nil, more), accepted, ""},
		"another fragment":                      {frame4(17, mine, world, to(80), nil, rest), accepted, ""},
		"a wrong checksum":                      {broken(frame4(6, mine, world, to(80), nil, nil), 10), dropped, ""},
		"an echo with a wrong checksum":         {broken(frame4(1, mine, world, echo, nil, nil), 22), dropped, ""},
		"an IPv6 echo with a wrong one":         {broken(frame6(58, mine6, world6, echo6), 42), dropped, ""},
		"the machine's loopback":                {frame4(6, mine, netip.MustParseAddr("127.6.6.6"), to(80), nil, nil), refused, nowhere},
		"an echo of it":                         {frame4(1, mine, netip.MustParseAddr("127.0.0.1"), echo, nil, nil), refused, nowhere},
		"any address":                           {frame4(17, mine, zero, to(80), nil, nil), refused, nowhere},
		"the machine's IPv6 loopback":           {frame6(17, mine6, netip.IPv6Loopback(), to(80)), refused, nowhere},
		"any IPv6 address":                      {frame6(6, mine6, netip.IPv6Unspecified(), to(80)), refused, nowhere},
		"IPv4 in IPv6":                          {frame6(6, mine6, netip.MustParseAddr("::ffff:10.0.0.7"), to(80)), refused, nowhere},
		"a loose source route":                  {frame4(6, mine, world, to(80), []byte{131, 7, 4, 10, 0, 0, 1, 0}, nil), refused, "it has IP options"},
		"a strict source route":                 {frame4(17, mine, world, to(80), []byte{137, 7, 4, 10, 0, 0, 1, 0}, nil), refused, "it has IP options"},
		"options that do nothing":               {frame4(1, mine, world, echo, []byte{1, 1, 1, 0}, nil), refused, "it has IP options"},
		"another's address":                     {frame4(6, other, world, to(80), nil, nil), refused, "its source address is not the machine's"},
		"the gateway's address":                 {frame4(17, p.Gateway, world, to(80), nil, nil), refused, "its source address is not the machine's"},
		"no address":                            {frame4(17, zero, world, to(80), nil, nil), refused, "its source address is not the machine's"},
		"a group":                               {frame4(17, mine, group, to(9), nil, nil), refused, "multicast address"},
		"a group that is used to find services": {frame4(17, mine, group, to(5353), nil, nil), dropped, ""},
		"everybody":                             {frame4(17, mine, broadcast, to(9), nil, nil), refused, "multicast address"},
		"everybody on the link":                 {frame4(17, mine, p.last(), to(9), nil, nil), refused, "multicast address"},
		"a request for an address":              {frame4(17, zero, broadcast, to(67), nil, nil), dhcpRequest, ""},
		"one in pieces":                         {frame4(17, zero, broadcast, to(67), nil, more), refused, "its source address is not the machine's"},
		"an echo":                               {frame4(1, mine, world, echo, nil, nil), echoRequest, ""},
		"an echo of the gateway's":              {frame4(1, mine, p.Gateway, echo, nil, nil), accepted, ""},
		"an echo in pieces":                     {frame4(1, mine, world, echo, nil, more), refused, "it is a fragment of an ICMP packet"},
		"an unreachable":                        {frame4(1, mine, world, kind(3, false), nil, nil), accepted, ""},
		"a redirect":                            {frame4(1, mine, world, kind(5, false), nil, nil), dropped, ""},
		"a timestamp":                           {frame4(1, mine, p.Gateway, kind(13, false), nil, nil), dropped, ""},
		"GRE":                                   {frame4(47, mine, world, to(80), nil, nil), refused, "it is neither TCP, UDP nor an echo request"},
		"SCTP":                                  {frame4(132, mine, world, to(80), nil, nil), refused, "it is neither TCP, UDP nor an echo request"},
		"IP in IP":                              {frame4(4, mine, world, to(80), nil, nil), refused, "it is neither TCP, UDP nor an echo request"},
		"6in4":                                  {frame4(41, mine, world, to(80), nil, nil), refused, "it is neither TCP, UDP nor an echo request"},
		"who is the gateway":                    {arp(p.Gateway), accepted, ""},
		"who is the machine":                    {arp(mine), dropped, ""},
		"who is another":                        {arp(other), dropped, ""},
		"a tag":                                 {append(tagged, frame4(6, mine, world, to(80), nil, nil)[14:]...), dropped, ""},
		"TCP over IPv6":                         {frame6(6, mine6, world6, to(80)), accepted, ""},
		"UDP over IPv6":                         {frame6(17, mine6, world6, to(80)), accepted, ""},
		"another's IPv6 address":                {frame6(17, world6, world6, to(80)), refused, "its source address is not the machine's"},
		"a routing header":                      {frame6(43, mine6, world6, to(80)), refused, "it is neither TCP, UDP nor an echo request"},
		"hop by hop":                            {frame6(0, mine6, world6, to(80)), refused, "it is neither TCP, UDP nor an echo request"},
		"an IPv6 fragment":                      {frame6(44, mine6, world6, to(80)), refused, "it is neither TCP, UDP nor an echo request"},
		"an IPv6 group":                         {frame6(17, mine6, group6, to(5353)), dropped, ""},
		"an IPv6 echo":                          {frame6(58, mine6, world6, echo6), echoRequest, ""},
		"an IPv6 echo of the gateway's":         {frame6(58, mine6, p.Gateway6, echo6), accepted, ""},
		"another's IPv6 echo":                   {frame6(58, local, world6, echo6), dropped, ""},
		"who is the IPv6 gateway":               {frame6(58, mine6, group6, kind(byte(header.ICMPv6NeighborSolicit), true)), accepted, ""},
		"who is some IPv6 address":              {frame6(58, mine6, group6, kind(byte(header.ICMPv6NeighborSolicit), false)), dropped, ""},
		"a router of the machine's":             {frame6(58, mine6, group6, kind(byte(header.ICMPv6RouterAdvert), false)), dropped, ""},
		"nothing":                               {make([]byte, 14), dropped, ""},
	} {
		k := p.inspect(row.frame)
		if k.verdict != row.verdict || k.reason != row.reason {
			t.Errorf("%s: %d, %q; want %d, %q", name, k.verdict, k.reason, row.verdict, row.reason)
		}
	}
}

// FuzzInspect checks that all accepted packets come from the machine's address and contain no
// routing options.
func FuzzInspect(f *testing.F) {
	p := testPlan
	f.Add(frame4(6, p.Address.Addr(), broadcast, to(1), nil, nil))
	f.Add(frame4(17, p.Address.Addr(), p.Gateway, to(53), []byte{131, 7, 4, 10, 0, 0, 1, 0}, nil))
	f.Add(frame6(58, p.Address6.Addr(), p.Gateway6, to(1)))
	f.Add(frame6(43, p.Address6.Addr(), p.Gateway6, to(1)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < header.EthernetMinimumSize || len(frame) > maxFrame {
			return
		}
		k := p.inspect(frame)
		if k.verdict == dropped || k.verdict == refused {
			return
		}
		body := frame[header.EthernetMinimumSize:]
		switch header.Ethernet(frame).Type() {
		case header.IPv4ProtocolNumber:
			ip := header.IPv4(body)
			from := addr(ip.SourceAddressSlice())
			if ip.HeaderLength() != header.IPv4MinimumSize || from != p.Address.Addr() && k.verdict != dhcpRequest {
				t.Errorf("%d from %s with a header of %d", k.verdict, from, ip.HeaderLength())
			}
		case header.IPv6ProtocolNumber:
			ip := header.IPv6(body)
			switch ip.NextHeader() {
			case 6, 17, 58:
			default:
				t.Errorf("header %d got through", ip.NextHeader())
			}
		}
	})
}

// TestCloseWhileMachineSends closes networks while their machines send packets. Close must not
// block.
func TestCloseWhileMachineSends(t *testing.T) {
	for range 100 {
		t.Run("", func(t *testing.T) {
			g := newGuest(t, nil, nil, nil)
			for i := range 20 {
				body := to(dnsPort)
				binary.BigEndian.PutUint16(body, uint16(2000+i)) // a new port starts a new flow
				if _, err := g.link.conn.Write(frame4(17, g.plan.Address.Addr(), netip.MustParseAddr("93.184.216.34"), body, nil, nil)); err != nil {
					t.Fatal(err)
				}
			}
			closed := make(chan struct{})
			go func() { g.network.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(testenv.Patience):
				panic("the network does not close") // the panic prints all goroutines
			}
		})
	}
}

// FuzzStack sends random frames to a running stack. The stack must not panic and must continue to
// work.
func FuzzStack(f *testing.F) {
	g := newGuest(f, nil, nil, nil)
	f.Add(frame4(6, g.plan.Address.Addr(), netip.MustParseAddr("93.184.216.34"), to(1), nil, nil))
	f.Add(frame4(17, g.plan.Address.Addr(), netip.MustParseAddr("93.184.216.34"), to(53), nil, nil))
	f.Add(frame4(17, netip.IPv4Unspecified(), broadcast, to(67), nil, nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 0 && len(frame) <= maxFrame {
			if _, err := g.link.conn.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
	})
}
