package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// special tells the answer for a name that is not looked up, as only the host could mean something by it.
//
//   - Names of the host itself (localhost, and what is below it and localdomain) and addresses that are written as names do not exist. No top-level domain
//     begins with a digit.
//   - Names of a single label have no data. The host's files and search domains have such names; the top-level domains that are called so do exist, which is
//     why they are not told not to: all that is below them would not exist either (RFC 8020).
//   - Below arpa there is nothing but PTR of single addresses, and those that are not on the Internet do not exist.
func special(name string, t dnsmessage.Type) (dnsmessage.RCode, bool) {
	dot := strings.LastIndexByte(name, '.')
	switch top := name[dot+1:]; {
	case top == "localhost" || top == "localdomain" || top != "" && '0' <= top[0] && top[0] <= '9':
		return dnsmessage.RCodeNameError, true
	case dot < 0:
		return dnsmessage.RCodeSuccess, true
	case top == "arpa":
		address, ok := reverse(name)
		if ok && !onInternet(address) {
			return dnsmessage.RCodeNameError, true
		}
		return dnsmessage.RCodeSuccess, !ok || t != dnsmessage.TypePTR
	}
	return 0, false
}

// tellable tells whether a name that the host has for something may be told: not its own names.
func tellable(name string) bool {
	name, ok := canonical(name)
	if !ok {
		return false
	}
	_, own := special(name, dnsmessage.TypeA)
	return !own
}

// reverse is the address that a name below arpa stands for.
func reverse(name string) (netip.Addr, bool) {
	if name, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		address, err := netip.ParseAddr(strings.Join(reversed(name), "."))
		return address, err == nil && address.Is4()
	}
	if name, ok := strings.CutSuffix(name, ".ip6.arpa"); ok {
		digits := reversed(name)
		raw, err := hex.DecodeString(strings.Join(digits, ""))
		if err == nil && len(digits) == 32 && len(raw) == 16 { // a digit in each label, as there are no empty ones
			return netip.AddrFrom16([16]byte(raw)).Unmap(), true
		}
	}
	return netip.Addr{}, false
}

func reversed(name string) []string {
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	return labels
}

// notInternet are networks beside those that netip knows: carriers' own (RFC 6598) and those for benchmarks (RFC 2544).
var notInternet = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}

func onInternet(a netip.Addr) bool {
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(notInternet, within)
}
