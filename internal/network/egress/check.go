package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// DNSOverTLSPort is the port that machines never reach, because they could ask other name servers
// there.
const DNSOverTLSPort = 853

// Check returns an Invalid error if an allow rule can never match. This is the case if:
//
//   - No rule opens its addresses or its port, or the address belongs to the host.
//   - The name always means the machine itself.
//   - A deny rule covers it.
//
// isHost reports whether an address belongs to the host.
func (p *Policy) Check(isHost func(netip.Addr) bool) error {
	for _, r := range p.allow {
		if reason := r.never(isHost); reason != "" {
			return neverMatches(r, reason)
		}
		for _, d := range p.deny {
			if d.covers(r) {
				return neverMatches(r, fmt.Sprintf("deny rules apply first, and the rule to deny %s covers it", d.text))
			}
		}
	}
	return nil
}

func neverMatches(r rule, reason string) error {
	return fault.Newf(fault.Invalid, "rule to allow: %s can never match: %s", r.text, reason)
}

// never returns the reason why the rule matches nothing, or an empty string.
func (r rule) never(isHost func(netip.Addr) bool) string {
	if r.port == DNSOverTLSPort {
		return "port 853 (DNS over TLS) is always refused"
	}
	if r.name != "" {
		if last := r.name[strings.LastIndexByte(r.name, '.')+1:]; last == "localhost" || last == "localdomain" {
			return "the name belongs to the machine itself"
		}
		return ""
	}
	for _, c := range special {
		if contains(c.prefix, r.prefix) {
			if c.open {
				break
			}
			return fmt.Sprintf("no rule opens %s addresses", c.name)
		}
	}
	if r.prefix.IsSingleIP() && isHost(r.prefix.Addr()) {
		return "no rule opens addresses of the host"
	}
	return ""
}
