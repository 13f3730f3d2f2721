package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// special returns the answer for names that are never looked up because they are local to the host.
//
//   - localhost, localdomain, names below these two, and addresses written as names: NXDOMAIN. No
//     top-level domain begins with a digit.
//   - Names with a single label: no data. Such names can be in the host's hosts file or search
//     domains. NXDOMAIN would be wrong, because it also covers all names below an existing
//     top-level domain (RFC 8020).
//   - Names below arpa: only PTR records of single addresses are looked up. The answer is NXDOMAIN
//     for addresses that are not on the Internet.
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

// isPublic reports whether a name from the host's resolver is not local to the host.
func isPublic(name string) bool {
	name, ok := canonical(name)
	if !ok {
		return false
	}
	_, own := special(name, dnsmessage.TypeA)
	return !own
}

// reverse returns the address that a name below arpa encodes.
func reverse(name string) (netip.Addr, bool) {
	if name, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		address, err := netip.ParseAddr(strings.Join(reversed(name), "."))
		return address, err == nil && address.Is4()
	}
	if name, ok := strings.CutSuffix(name, ".ip6.arpa"); ok {
		digits := reversed(name)
		raw, err := hex.DecodeString(strings.Join(digits, ""))
		if err == nil && len(digits) == 32 && len(raw) == 16 { // each label is one digit
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

// notInternet lists networks that the methods of netip.Addr do not recognize: carrier-grade NAT
// (RFC 6598) and benchmarks (RFC 2544).
var notInternet = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}

func onInternet(a netip.Addr) bool {
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(notInternet, within)
}
