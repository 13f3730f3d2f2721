package egress

import "net/netip"

// class describes the purpose of an address range. For the public Internet, it is the zero value.
type class struct {
	prefix netip.Prefix
	name   string
	open   bool // an allow rule can open the range
}

// special lists the address ranges that are not part of the public Internet, according to IANA's
// special-purpose address registries. It also lists the metadata addresses of clouds, because
// metadata services return credentials. If several ranges contain an address, the first one
// applies.
//
// No rule opens ranges whose addresses contain an IPv4 address, because such an address could lead
// to the host.
var special = []class{
	{of("169.254.169.254/32"), "metadata", false},
	{of("168.63.129.16/32"), "metadata", false},   // Azure
	{of("100.100.100.200/32"), "metadata", false}, // Alibaba
	{of("192.0.0.192/32"), "metadata", false},     // Oracle
	{of("fd00:ec2::/32"), "metadata", false},      // AWS
	{of("fd20:ce::254/128"), "metadata", false},   // Google

	{of("0.0.0.0/8"), "unspecified", false},
	{of("127.0.0.0/8"), "loopback", false},
	{of("10.0.0.0/8"), "private", true},
	{of("172.16.0.0/12"), "private", true},
	{of("192.168.0.0/16"), "private", true},
	{of("100.64.0.0/10"), "shared", true},
	{of("169.254.0.0/16"), "link-local", false},
	{of("192.0.0.0/24"), "reserved", true},
	{of("192.0.2.0/24"), "documentation", true},
	{of("198.51.100.0/24"), "documentation", true},
	{of("203.0.113.0/24"), "documentation", true},
	{of("192.88.99.0/24"), "reserved", true}, // 6to4 relays
	{of("198.18.0.0/15"), "benchmark", true},
	{of("224.0.0.0/4"), "multicast", false},
	{of("255.255.255.255/32"), "broadcast", false},
	{of("240.0.0.0/4"), "reserved", true},

	{of("::/128"), "unspecified", false},
	{of("::1/128"), "loopback", false},
	{of("fc00::/7"), "private", true},
	{of("fe80::/10"), "link-local", false},
	{of("fec0::/10"), "site-local", false},
	{of("ff00::/8"), "multicast", false},
	{of("2001:db8::/32"), "documentation", true},
	{of("3fff::/20"), "documentation", true},
	{of("2001:2::/48"), "benchmark", true},
	{of("2001::/32"), "reserved", false}, // Teredo addresses contain an IPv4 address
	{of("2001::/23"), "reserved", true},
	{of("2002::/16"), "reserved", false}, // 6to4 addresses contain an IPv4 address
	{of("5f00::/16"), "reserved", true},
	// Only 2000::/3 is allocated to the public Internet.
	{of("::/8"), "reserved", false}, // several ranges contain an IPv4 address
	{of("::/3"), "reserved", true},
	{of("4000::/2"), "reserved", true},
	{of("8000::/1"), "reserved", true},
}

// nat64 is the well-known prefix of addresses that a translator maps to IPv4 addresses (RFC 6052).
// The last four bytes are the IPv4 address.
var nat64 = of("64:ff9b::/96")

func of(prefix string) netip.Prefix { return netip.MustParsePrefix(prefix) }

// plain returns the IPv4 address that an IPv4-mapped or NAT64 address contains. It returns other
// addresses unchanged, except that it removes the zone.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// classOf returns the class of an address. If the address is not known to be public, the class has
// a name.
func classOf(a netip.Addr) class {
	a = plain(a)
	if !a.IsValid() {
		return class{name: "invalid"}
	}
	for _, c := range special {
		if c.prefix.Contains(a) {
			return c
		}
	}
	return class{}
}

// contains reports whether one range contains another one.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
