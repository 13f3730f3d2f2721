package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxRules bounds how many rules there are of each kind, and MaxRule the bytes of one.
const (
	MaxRules = 256
	MaxRule  = 260
)

// rule is a part of the Internet: addresses or names, and a port of them or all.
type rule struct {
	text   string
	prefix netip.Prefix // of addresses; else
	name   string       // a name in lower case, and with
	below  bool         // those below it instead
	port   uint16       // 0: any
}

// parseRule reads 192.0.2.0/24, 192.0.2.1, 2001:db8::/32, example.com or *.example.com, each with :PORT behind it or not; an IPv6 address with a port stands in
// brackets.
func parseRule(text string) (rule, error) {
	r := rule{text: text}
	wrong := fmt.Errorf("%.80q is no rule: it must be an address, a range such as 192.0.2.0/24, a name or *.NAME, and may end with :PORT", text)
	if len(text) > MaxRule {
		return r, wrong
	}
	host, port, ported := splitPort(text)
	if ported {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, wrong
		}
		r.port = uint16(n)
	}
	if prefix, err := parsePrefix(host); err == nil {
		r.prefix = prefix
		return r, nil
	}
	r.name, r.below = strings.CutPrefix(strings.ToLower(strings.TrimSuffix(host, ".")), "*.")
	if !validName(r.name) {
		return r, wrong
	}
	return r, nil
}

// splitPort splits what is behind the last colon off, unless that belongs to an IPv6 address.
func splitPort(text string) (host, port string, ok bool) {
	if inside, bracketed := strings.CutPrefix(text, "["); bracketed {
		if host, port, ok = strings.Cut(inside, "]:"); ok {
			return host, port, true
		}
		if host, ok = strings.CutSuffix(inside, "]"); ok {
			return host, "", false
		}
	}
	if strings.Count(text, ":") != 1 {
		return text, "", false
	}
	return strings.Cut(text, ":")
}

// parsePrefix reads a range or a single address, in the form of the address that is meant.
func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return p, fmt.Errorf("%q is no address", text)
		}
		a = plain(a)
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if a := p.Addr(); a != plain(a) {
		bits := p.Bits() - 96
		if bits < 0 {
			return p, fmt.Errorf("%q is no range of one kind of addresses", text)
		}
		p = netip.PrefixFrom(plain(a), bits)
	}
	return p.Masked(), nil
}

// validName tells whether a text is a domain name: at least two labels, of which the last is no number, since that would be an address in one of its old forms.
func validName(name string) bool {
	labels := strings.Split(name, ".")
	if len(name) > 253 || len(labels) < 2 {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9'
}

// hasName tells whether the rule is for a name, whose ports are left out of account.
func (r rule) hasName(name string) bool {
	if r.name == "" {
		return false
	}
	if r.below {
		return strings.HasSuffix(name, "."+r.name)
	}
	return name == r.name
}

// matches tells whether the rule is for an address that has these names.
func (r rule) matches(to netip.AddrPort, names []string) bool {
	if r.port != 0 && r.port != to.Port() {
		return false
	}
	if r.name == "" {
		return r.prefix.Contains(to.Addr())
	}
	for _, name := range names {
		if r.hasName(name) {
			return true
		}
	}
	return false
}

// opens tells whether the rule is for addresses of one range that is refused by default, and no others: 0.0.0.0/0 opens none.
func (r rule) opens() bool {
	if r.name != "" {
		return false
	}
	for _, s := range special {
		if s.open && s.prefix.Bits() <= r.prefix.Bits() && s.prefix.Contains(r.prefix.Addr()) {
			return true
		}
	}
	return false
}
