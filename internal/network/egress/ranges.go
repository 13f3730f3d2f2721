package egress

import "net/netip"

// class is what a range of addresses is for. Those without a name are the public Internet.
type class struct {
	name string
	open bool // a rule for addresses within the range lets a machine reach them
}

// special are the ranges that are not the public Internet, by IANA's registries of special-purpose addresses, and the addresses at which clouds tell a machine
// its own secrets. Where ranges overlap the first counts.
var special = []struct {
	prefix netip.Prefix
	class
}{
	{of("169.254.169.254/32"), class{name: "metadata"}},
	{of("168.63.129.16/32"), class{name: "metadata"}},   // Azure
	{of("100.100.100.200/32"), class{name: "metadata"}}, // Alibaba
	{of("192.0.0.192/32"), class{name: "metadata"}},     // Oracle
	{of("fd00:ec2::/32"), class{name: "metadata"}},      // AWS
	{of("fd20:ce::254/128"), class{name: "metadata"}},   // Google

	{of("0.0.0.0/8"), class{name: "unspecified"}},
	{of("127.0.0.0/8"), class{name: "loopback"}},
	{of("10.0.0.0/8"), class{"private", true}},
	{of("172.16.0.0/12"), class{"private", true}},
	{of("192.168.0.0/16"), class{"private", true}},
	{of("100.64.0.0/10"), class{"shared", true}},
	{of("169.254.0.0/16"), class{name: "link-local"}},
	{of("192.0.0.0/24"), class{name: "reserved"}},
	{of("192.0.2.0/24"), class{name: "documentation"}},
	{of("198.51.100.0/24"), class{name: "documentation"}},
	{of("203.0.113.0/24"), class{name: "documentation"}},
	{of("192.88.99.0/24"), class{name: "reserved"}}, // relays of 6to4
	{of("198.18.0.0/15"), class{name: "benchmark"}},
	{of("224.0.0.0/4"), class{name: "multicast"}},
	{of("255.255.255.255/32"), class{name: "broadcast"}},
	{of("240.0.0.0/4"), class{name: "reserved"}},

	{of("::/128"), class{name: "unspecified"}},
	{of("::1/128"), class{name: "loopback"}},
	{of("fc00::/7"), class{"private", true}},
	{of("fe80::/10"), class{name: "link-local"}},
	{of("fec0::/10"), class{name: "site-local"}},
	{of("ff00::/8"), class{name: "multicast"}},
	{of("2001:db8::/32"), class{name: "documentation"}},
	{of("3fff::/20"), class{name: "documentation"}},
	{of("2001:2::/48"), class{name: "benchmark"}},
	{of("2001::/23"), class{name: "reserved"}}, // Teredo among them, which holds an IPv4 address
	{of("2002::/16"), class{name: "reserved"}}, // 6to4, which holds one too
	{of("5f00::/16"), class{name: "reserved"}},
}

// nat64 is the prefix under which a translator of the host's network reaches an IPv4 address, which is in the last four bytes.
var nat64 = of("64:ff9b::/96")

// global is what of IPv6 has been given out for the public Internet.
var global = of("2000::/3")

func of(prefix string) netip.Prefix { return netip.MustParsePrefix(prefix) }

// plain gives the address that is meant: an IPv4 address that is written as one of IPv6 is that IPv4 address.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// classOf tells what an address is for. All that is not known to be public has a name.
func classOf(a netip.Addr) class {
	a = plain(a)
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.class
		}
	}
	switch {
	case !a.IsValid():
		return class{name: "invalid"}
	case a.Is6() && !global.Contains(a):
		return class{name: "reserved"}
	}
	return class{}
}
