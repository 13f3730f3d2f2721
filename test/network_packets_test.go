//go:build machine

package test

import (
	"cmp"
	"fmt"
)

const (
	optioned  = "it has IP options"
	strange   = "it is neither TCP, UDP nor an echo request"
	piece     = "it is a fragment of an ICMP packet"
	foreign   = "its source address is not the machine's"
	elsewhere = "private"
)

// packets returns attacks with packets and frames that a kernel would not send. Those that are sent
// to public addresses are malformed, so they must not arrive either.
func packets() (all []attack) {
	n := 0 // number in the last address
	// add adds an attack for each shape. Each attack uses a new address with the given IPv4 or IPv6
	// prefix.
	add := func(prefix string, port int, logged string, shapes ...string) {
		for _, s := range shapes {
			n++
			to := fmt.Sprintf("%s%d", prefix, n)
			if prefix[len(prefix)-1] == ':' {
				to = "[" + to + "]"
			}
			via := "10.66.3.1"
			if to[0] == '[' {
				via = "fd66::4"
			}
			all = append(all, attack{Name: s + " to " + to, Do: s, To: fmt.Sprint(to, ":", port), Via: via, logged: logged, record: recordOf(s, to, port, logged)})
		}
	}
	const private, unused, private6, unused6 = "10.66.9.", "66.66.9.", "fd66:9::", "2a66:9::"
	for _, prefix := range []string{private, unused} {
		n = 0
		add(prefix, 80, optioned, "loose source route", "strict source route", "record route", "timestamp option", "router alert", "security option", "unknown option", "option too long", "forty option bytes")
		add(prefix, 123, optioned, "routed datagram")
		add(prefix, 123, strange, "IP in IP", "IPv6 in IP", "GRE", "ESP", "AH", "SCTP", "UDP-Lite", "OSPF", "PIM", "VRRP", "L2TP", "DCCP", "MPLS in IP", "raw IP", "protocol 0", "EtherIP",
			"IGMP query", "IGMP join")
		add(prefix, 0, piece, "fragmented echo")
		add(prefix, 80, "", "wrong header checksum", "wrong TCP checksum", "IP longer than its frame", "IP shorter than its head", "a head of 16 bytes", "IP version 5", "IP version 6 as 4", "half a head", "a head alone")
		add(prefix, 123, "", "wrong UDP checksum", "UDP longer than it is", "UDP shorter than a head", "fragments without head", "fragments without end", "fragments too far", "overlapping fragments")
		add(prefix, 80, "", "overlapping segments", "half a segment", "SYN and ACK", "no flags", "all flags", "ACK", "data in ACK", "FIN", "RST", "to itself")
		add(prefix, 80, "", "VLAN", "QinQ", "LLC", "LLC raw", "PPPoE", "MPLS", "loopback frame", "experimental", "no kind", "IPv6 kind, IPv4 packet", "802.1AE", "transparent bridging")
		add(prefix, 0, "", "wrong ICMP checksum", "ICMP timestamp", "ICMP address mask", "ICMP information", "ICMP router advertisement", "ICMP router solicitation", "ICMP traceroute", "ICMP redirect",
			"ICMP unreachable", "ICMP source quench", "ICMP extended echo", "ICMP echo reply", "an echo with a code")
		add(prefix, 0, "", "ARP request", "ARP from others", "ARP reply")
	}
	add(private, 80, elsewhere, "tiny fragments", "from port 0", "no hop left", "bytes behind", "data in SYN", "urgent in SYN", "broadcast frame", "multicast frame", "another's frame", "a frame from another", "SYN and FIN")
	add(private, 123, elsewhere, "fragments", "backward fragments", "twice fragments", "no UDP checksum", "64 KiB")
	for _, prefix := range []string{private6, unused6} {
		n = 0
		add(prefix, 80, strange, "routing header 0", "routing header 2", "routing header 3", "segment routing", "hop by hop", "jumbo payload", "destination options", "atomic fragment", "first fragment",
			"later fragment", "authentication", "mobility", "host identity", "no next header")
		add(prefix, 123, strange, "IP in IP", "GRE", "ESP", "SCTP", "UDP-Lite", "raw IP", "EtherIP")
		add(prefix, 80, "", "wrong TCP checksum", "half a segment", "VLAN", "ACK", "data in ACK", "IP longer than its frame", "IP version 5")
		add(prefix, 123, "", "wrong UDP checksum", "no UDP checksum", "UDP longer than it is", "UDP shorter than a head")
		add(prefix, 0, "", "ICMPv6 redirect", "ICMPv6 router advertisement", "ICMPv6 router solicitation", "ICMPv6 node information", "ICMPv6 unreachable", "ICMPv6 too big", "MLD query", "MLD report",
			"ICMPv6 neighbour solicitation")
	}
	add(private6, 80, elsewhere, "from port 0", "no hop left", "data in SYN", "broadcast frame", "a frame from another")
	for _, from := range []string{"GATEWAY", "NEIGHBOUR", "127.0.0.1", "10.66.3.2", "0.0.0.0", "255.255.255.255", "224.0.0.1", hostCable, hostOwn, public, "169.254.169.254"} {
		n++
		for _, prefix := range []string{"10.66.10.", "66.66.10."} {
			all = append(all, attack{Name: fmt.Sprintf("spoofed from %s to %s%d", from, prefix, n), Do: "spoofed", To: fmt.Sprintf("%s%d:80", prefix, n), Via: from, logged: foreign})
		}
	}
	for _, from := range []string{"GATEWAY6", hostOwn6, hostCable6, public6, "fd66::7", "2a66::8"} {
		n++
		all = append(all, attack{Name: "spoofed from " + from, Do: "spoofed", To: fmt.Sprintf("[2a66:a::%d]:80", n), Via: from, logged: foreign})
	}
	for _, from := range []string{"::1", "fe80::7", "::", "ff02::1"} { // such packets are noise of a link
		n++
		all = append(all, attack{Name: "spoofed from " + from, Do: "spoofed", To: fmt.Sprintf("[2a66:a::%d]:80", n), Via: from})
	}
	// Source routes that lead through a public address.
	for _, after := range []string{"169.254.169.254", hostOwn, "127.0.0.1"} {
		n++
		to := fmt.Sprintf("66.66.11.%d", n)
		for _, s := range []string{"loose source route", "strict source route"} {
			all = append(all, attack{Name: s + " by " + to + " to " + after, Do: s, To: to + ":80", Via: after, logged: optioned, record: "tcp " + to + " 80"})
		}
	}
	return all
}

// recordOf returns the subject of the record that a shape should cause.
func recordOf(shape, to string, port int, logged string) string {
	to = unbracketed(to)
	switch logged {
	case strange:
		return fmt.Sprint("ip ", to, " 0")
	case piece:
		return "icmp " + to + " 0"
	}
	return fmt.Sprint(cmp.Or(protocolOf[shape], "tcp"), " ", to, " ", port)
}

func unbracketed(a string) string {
	if a[0] == '[' {
		return a[1 : len(a)-1]
	}
	return a
}

// protocolOf maps shapes that do not use TCP to their protocol.
var protocolOf = map[string]string{}

func init() {
	for _, s := range []string{"datagram", "routed datagram", "fragments", "backward fragments", "twice fragments", "overlapping fragments", "no UDP checksum", "64 KiB", "DHCP"} {
		protocolOf[s] = "udp"
	}
}
