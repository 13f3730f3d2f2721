//go:build machine

package test

import (
	"fmt"
	"net/netip"
	"strings"
)

// attack is an attack from inside a machine, and its expected outcome. The command attacker
// performs it.
type attack struct {
	Name  string `json:"name"`
	Do    string `json:"do"`
	To    string `json:"to"`
	Ask   string `json:"ask,omitempty"`
	Via   string `json:"via,omitempty"`
	Times int    `json:"times,omitempty"`

	logged string // expected reason in the log; empty if the packets are not recorded.
	record string // subject of the record, such as "protocol address port" or "dns name"; empty means the target.
	want   string // expected outcome; empty means any outcome without an answer.
}

// special lists addresses that machines must not reach, by kind.
var special = []struct{ kind, address string }{
	{"unspecified", "0.0.0.0"}, {"unspecified", "0.66.0.1"}, {"unspecified", "0.255.255.255"},
	{"loopback", "127.0.0.1"}, {"loopback", "127.66.0.1"}, {"loopback", "127.255.255.255"},
	{"private", "10.0.0.0"}, {"private", "10.255.255.255"}, {"private", "172.16.0.1"}, {"private", "172.31.255.255"}, {"private", "192.168.0.0"}, {"private", "192.168.255.255"},
	{"shared", "100.64.0.0"}, {"shared", "100.127.255.255"},
	{"link-local", "169.254.0.1"}, {"link-local", "169.254.255.255"},
	{"metadata", "169.254.169.254"}, {"metadata", "168.63.129.16"}, {"metadata", "100.100.100.200"}, {"metadata", "192.0.0.192"}, {"metadata", "fd00:ec2::254"},
	{"metadata", "fd00:ec2::23"}, {"metadata", "fd20:ce::254"},
	{"link-local", "169.254.170.2"}, {"link-local", "169.254.169.253"},
	{"reserved", "192.0.0.1"}, {"reserved", "192.0.0.171"}, {"reserved", "192.88.99.1"}, {"reserved", "240.0.0.1"}, {"reserved", "255.255.255.254"},
	{"documentation", "192.0.2.66"}, {"documentation", "198.51.100.66"}, {"documentation", "203.0.113.67"}, {"benchmark", "198.18.0.1"}, {"benchmark", "198.19.255.255"},
	{"multicast", "224.0.0.66"}, {"multicast", "239.255.255.250"}, {"broadcast", "255.255.255.255"},
	{"unspecified", "::"}, {"loopback", "::1"}, {"private", "fc00::1"}, {"private", "fdff:ffff::1"}, {"link-local", "fe80::1"}, {"link-local", "febf:ffff::1"},
	{"site-local", "fec0::1"}, {"site-local", "feff::1"}, {"multicast", "ff02::66"}, {"multicast", "ff0e::67"}, {"documentation", "2001:db8::1"}, {"documentation", "3fff:66::1"},
	{"benchmark", "2001:2::1"}, {"reserved", "2001:0:a42:1::1"}, {"reserved", "2001:10::1"}, {"reserved", "2002:a42:7::1"}, {"reserved", "2002:a9fe:a9fe::1"}, {"reserved", "2002:7f00:1::1"},
	{"reserved", "5f00::1"}, {"reserved", "100::1"}, {"reserved", "::10.66.0.30"}, {"reserved", "::169.254.169.254"}, {"reserved", "64:ff9b:1::10.66.0.31"}, {"reserved", "4000::1"},
	{"private", "::ffff:10.66.0.32"}, {"metadata", "::ffff:169.254.169.254"}, {"loopback", "::ffff:127.0.0.1"}, {"unspecified", "::ffff:0.0.0.0"}, {"reserved", "::ffff:0:10.66.0.33"},
	{"private", "64:ff9b::10.66.0.34"}, {"metadata", "64:ff9b::169.254.169.254"}, {"loopback", "64:ff9b::127.0.0.1"}, {"multicast", "64:ff9b::224.0.0.1"},
	{"address of the host", hostCable}, {"address of the host", hostPublic}, {"address of the host", hostOwn}, {"address of the host", hostRouted}, {"address of the host", hostRouted6 + "7"}, {"address of the host", hostCable6}, {"address of the host", hostPublic6},
	{"address of the host", hostOwn6}, {"address of the host", "::ffff:" + hostOwn}, {"address of the host", "64:ff9b::" + hostOwn}, {"address of the host", "64:ff9b::" + hostPublic},
	{"address of the host", "::ffff:" + hostCable}, {"reserved", "::" + hostOwn}, {"address of the host", "45.45.46.255"}, {"address of the host", "2a0a:a0a:46::"},
	{"address of the host", "172.31.7.255"}, {"private", worldCable}, {"private", worldCable6},
}

// ranges returns attacks on special addresses with raw packets. If the machine's kernel can send to
// an address, there are also attacks with sockets.
func ranges() (all []attack) {
	for _, s := range special {
		a := netip.MustParseAddr(s.address)
		for _, k := range []struct {
			do   string
			port uint16
		}{{"syn", 80}, {"datagram", 161}, {"echo", 0}} {
			protocol := map[string]string{"syn": "tcp", "datagram": "udp", "echo": "icmp"}[k.do]
			if k.do == "echo" && a.Is6() {
				protocol = "icmpv6"
			}
			x := attack{Name: fmt.Sprintf("%s to %s %s", k.do, s.kind, s.address), Do: k.do, To: netip.AddrPortFrom(a, k.port).String(), logged: s.kind, record: subjectOf(protocol, a, k.port)}
			switch {
			case k.do == "echo" && (a.IsMulticast() || s.kind == "broadcast"):
				x.logged = "" // dropped as noise, without a record
			case s.kind == "broadcast":
				x.logged = "multicast"
			case a.IsLoopback(), a.IsUnspecified(), a.Is4In6():
				x.logged = "not an address on a network"
			}
			all = append(all, x)
		}
		if on := a.Unmap(); s.address == "0.0.0.0" || s.address == "::" || on.IsLoopback() || on.IsMulticast() || on.IsLinkLocalUnicast() && on.Is6() || on != a || on == netip.MustParseAddr("255.255.255.255") {
			continue // the kernel does not send such packets out of the machine
		}
		for _, k := range []struct {
			do   string
			port uint16
		}{{"tcp", 22}, {"tcp", 443}, {"tcp", 6443}, {"udp", 123}, {"udp", 443}} {
			x := attack{Name: fmt.Sprintf("%s by a socket to %s %s port %d", k.do, s.kind, s.address, k.port), Do: k.do, To: netip.AddrPortFrom(a, k.port).String(), logged: s.kind}
			all = append(all, x)
		}
	}
	return all
}

func subjectOf(protocol string, a netip.Addr, port uint16) string {
	return fmt.Sprint(protocol, " ", a, " ", port)
}

// forms returns attacks on addresses in all notations of inet_aton. Other parsers treat these
// notations as names.
func forms() (all []attack) {
	for _, target := range []struct{ kind, address string }{{"private", "10.66.0.40"}, {"metadata", "169.254.169.254"}, {"address of the host", hostOwn}, {"loopback", "127.0.0.1"}} {
		b := netip.MustParseAddr(target.address).As4()
		n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		for form, text := range map[string]string{
			"dotted": target.address, "decimal": fmt.Sprint(n), "hexadecimal": fmt.Sprintf("%#x", n), "octal": fmt.Sprintf("%#o", n),
			"dotted hexadecimal": fmt.Sprintf("%#x.%#x.%#x.%#x", b[0], b[1], b[2], b[3]), "dotted octal": fmt.Sprintf("%#04o.%#04o.%#04o.%#04o", b[0], b[1], b[2], b[3]),
			"two-part": fmt.Sprintf("%d.%d", b[0], n&0xffffff), "three-part": fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff), "mixed": fmt.Sprintf("%#x.%d.%#o.%d", b[0], b[1], b[2], b[3]),
		} {
			if target.kind != "loopback" {
				all = append(all, attack{Name: fmt.Sprintf("%s %s address %s", form, target.kind, text), Do: "tcp", To: text + ":80", logged: target.kind, record: "tcp " + target.address + " 80"})
			}
			all = append(all, attack{Name: fmt.Sprintf("name that is a %s %s address %s", form, target.kind, text), Do: "query", To: "GATEWAY:53", Ask: text + " A", want: "told"})
		}
	}
	return all
}

// names returns attacks that use DNS names.
func names() (all []attack) {
	for name, logged := range map[string]string{
		"private.test": "private", "private172.test": "private", "private192.test": "private", "shared.test": "shared", "loopback.test": "loopback", "loopback6.test": "loopback",
		"loopback2.test": "loopback", "zero.test": "unspecified", "zero6.test": "unspecified", "metadata.test": "metadata", "metadata.google.internal": "metadata",
		"metadata6.test": "metadata", "azure.test": "metadata", "alibaba.test": "metadata", "linklocal.test": "link-local", "linklocal6.test": "link-local",
		"unique.test": "private", "sitelocal.test": "site-local", "mapped.test": "", "mapped-loopback.test": "", "compatible.test": "reserved", "nat64.test": "private",
		"nat64-loopback.test": "loopback", "nat64-metadata.test": "metadata", "sixtofour.test": "reserved", "teredo.test": "reserved", "multicast.test": "multicast",
		"multicast6.test": "multicast", "broadcast.test": "broadcast", "reserved.test": "reserved", "benchmark.test": "benchmark", "documentation.test": "documentation",
		"documentation6.test": "documentation", "host.test": "address of the host", "host6.test": "address of the host", "host-cable.test": "address of the host",
		"host-public.test": "address of the host", "host-nat64.test": "address of the host", "alias.test": "private", "alias-metadata.test": "metadata",
		"alias-host.test": "address of the host", "alias-of-alias.test": "private", "files.test": "private", "itself.test": "loopback",
	} {
		kind := "A"
		if strings.Contains(name, "6") && name != "private192.test" || strings.Contains("unique.test sitelocal.test mapped.test mapped-loopback.test compatible.test nat64-loopback.test nat64-metadata.test sixtofour.test teredo.test host-nat64.test", name) {
			kind = "AAAA"
		}
		all = append(all,
			attack{Name: "name " + name, Do: "name", To: name + ":80", logged: logged, record: "dns " + name},
			attack{Name: "query for " + name, Do: "query", To: "GATEWAY:53", Ask: name + " " + kind, want: "told", logged: logged, record: "dns " + name},
			attack{Name: "query by TCP for " + name, Do: "query-tcp", To: "GATEWAY:53", Ask: name + " " + kind, want: "told", logged: logged, record: "dns " + name})
	}
	for _, name := range []string{"localhost", "localhost.localdomain", "a.localhost", "wpad", "gateway", "1.0.0.127.in-addr.arpa", "254.169.254.169.in-addr.arpa", "ipv4only.arpa", "10.0.0.1"} {
		for _, kind := range []string{"A", "AAAA", "PTR", "ANY", "AXFR", "TXT"} {
			all = append(all, attack{Name: "query for " + name + " " + kind, Do: "query", To: "GATEWAY:53", Ask: name + " " + kind, want: "told"})
		}
	}
	return append(all,
		attack{Name: "a name with public and private addresses", Do: "query", To: "GATEWAY:53", Ask: "both.test A", want: "told", logged: "private", record: "dns both.test"},
		attack{Name: "a name with public and private addresses of IPv6", Do: "query", To: "GATEWAY:53", Ask: "both.test AAAA", want: "told", logged: "private", record: "dns both.test"},
	)
}

// resolvers returns attacks through other name servers. The machine's own name server must answer
// each query. The query must not leave the machine in its original form.
func resolvers() (all []attack) {
	for _, server := range []string{"8.8.8.8", "1.1.1.1", nameServer, "10.66.1.53", "169.254.169.253", hostOwn, hostCable, "GATEWAY", "[2001:4860:4860::8888]", "[fd66::53]", "[::ffff:8.8.8.8]", "[GATEWAY6]"} {
		if !strings.Contains(server, "ffff") {
			all = append(all,
				attack{Name: "another resolver " + server, Do: "query", To: server + ":53", Ask: "private.test A", want: "told"},
				attack{Name: "another resolver " + server + " by TCP", Do: "query-tcp", To: server + ":53", Ask: "private.test A", want: "told"},
				attack{Name: "no query to " + server, Do: "dns", To: server + ":53", Ask: "text"})
		}
		kind := "another name server"
		if strings.Contains(server, "GATEWAY") {
			kind = "the gateway"
		}
		if strings.Contains(server, "ffff") {
			kind = "not an address on a network"
			all = append(all, attack{Name: "DNS over TLS to " + server, Do: "syn", To: server + ":853", logged: kind}, attack{Name: "DNS over QUIC to " + server, Do: "datagram", To: server + ":853", logged: kind})
			continue
		}
		all = append(all, attack{Name: "DNS over TLS to " + server, Do: "tcp", To: server + ":853", logged: kind}, attack{Name: "DNS over QUIC to " + server, Do: "udp", To: server + ":853", logged: kind})
	}
	for _, what := range []string{
		"empty", "half a head", "no question", "a lie of questions", "a lie of answers", "two questions", "a loop", "two that point", "a pointer forwards", "a long label", "a name without end",
		"a name of 1000 bytes", "a zero in a name", "a dot in a label", "a space in a name", "an answer", "an update", "a notification", "chaos", "a lie of EDNS", "two of EDNS", "60 KiB", "text",
	} {
		all = append(all, attack{Name: "malformed DNS: " + what, Do: "dns", To: "GATEWAY:53", Ask: what}, attack{Name: "malformed DNS by TCP: " + what, Do: "dns-tcp", To: "GATEWAY:53", Ask: what})
	}
	for _, what := range []string{"a length and no more", "a length of 0", "a length too short", "64 KiB", "HTTP"} {
		all = append(all, attack{Name: "malformed DNS by TCP: " + what, Do: "dns-tcp", To: "8.8.8.8:53", Ask: what})
	}
	return all
}

// redirects returns attacks that use HTTP redirects.
func redirects() (all []attack) {
	for to, logged := range map[string]string{
		"10.66.2.1": "private", "192.168.66.1": "private", "169.254.169.254": "metadata", "100.100.100.200": "metadata", hostOwn: "address of the host", hostCable: "address of the host",
		hostPublic: "address of the host", "[" + hostOwn6 + "]": "address of the host", "[fd66::3]": "private", "[64:ff9b::a42:20]": "private", "172.16.66.1": "private", "100.64.66.1": "shared", "127.0.0.1": "",
	} {
		all = append(all, attack{
			Name: "a redirect to " + to, Do: "http", To: "http://" + public + "/?to=http://" + to + ":8080/", logged: logged, record: "tcp " + strings.Trim(to, "[]") + " 8080",
		})
	}
	return append(all, attack{Name: "a redirect to a private name", Do: "http", To: "http://public.test/?to=http://target.test/", logged: "private", record: "dns target.test"})
}

// gateways returns attacks on the gateway and on the machine's link.
func gateways() (all []attack) {
	for _, port := range []int{22, 80, 443, 2375, 8080} {
		for _, gateway := range []string{"GATEWAY", "[GATEWAY6]"} {
			all = append(all, attack{Name: fmt.Sprintf("port %d of %s", port, gateway), Do: "tcp", To: fmt.Sprintf("%s:%d", gateway, port), logged: "the gateway serves only DNS"})
		}
	}
	for _, port := range []int{69, 123, 161, 1900} {
		for _, gateway := range []string{"GATEWAY", "[GATEWAY6]"} {
			all = append(all, attack{Name: fmt.Sprintf("port %d of %s by UDP", port, gateway), Do: "udp", To: fmt.Sprintf("%s:%d", gateway, port), logged: "the gateway serves only DNS"})
		}
	}
	return append(all,
		attack{Name: "the gateway, mapped", Do: "syn", To: "[::ffff:GATEWAY]:80", logged: "not an address on a network"},
		attack{Name: "the gateway by a translator", Do: "syn", To: "[64:ff9b::GATEWAY]:80", logged: "private"},
		attack{Name: "a neighbour", Do: "syn", To: "NEIGHBOUR:80", logged: "private"},
		attack{Name: "a neighbour by UDP", Do: "datagram", To: "NEIGHBOUR:123", logged: "private"},
		attack{Name: "all on the link", Do: "datagram", To: "ALL:161", logged: "multicast"},
		attack{Name: "the DHCP server of others", Do: "DHCP", To: "66.66.7.1:67"},
		attack{Name: "the DHCP server of the host", Do: "DHCP", To: hostOwn + ":67"},
	)
}
