package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxRules is the maximum number of allow rules, and of deny rules. MaxRule is the maximum size of
// a rule, in bytes.
const (
	MaxRules = 256
	MaxRule  = 260
)

// rule matches addresses or names, on one port or on all ports.
type rule struct {
	text   string
	prefix netip.Prefix // matches addresses; the zero value if name is set
	name   string       // in lower case
	below  bool         // matches only the names below name
	port   uint16       // 0 matches all ports
}

// parseRule reads an address, a range, a name or *.NAME, optionally with :PORT. An IPv6 address
// with a port must be in brackets.
func parseRule(text string) (rule, error) {
	r := rule{text: text}
	wrong := fmt.Errorf("%.80q is not a rule: use an address, a range such as 192.0.2.0/24, a name or *.NAME, each with an optional :PORT", text)
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

// splitPort splits off the text after the last colon, unless the colon belongs to an IPv6 address.
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

// parsePrefix reads a range or an address. It converts addresses that contain an IPv4 address, as
// plain does.
func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return p, fmt.Errorf("%q is not an address", text)
		}
		a = plain(a)
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if a := p.Addr(); a != plain(a) {
		bits := p.Bits() - 96
		if bits < 0 {
			return p, fmt.Errorf("%q is a range of both IPv4 and IPv6 addresses", text)
		}
		p = netip.PrefixFrom(plain(a), bits)
	}
	return p.Masked(), nil
}

// validName reports whether a text is a domain name with at least two labels. If the last label
// begins with a digit, the text is not valid, because it could be an old notation of an IPv4
// address.
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

// hasName reports whether the rule matches a name. It ignores the port.
func (r rule) hasName(name string) bool {
	if r.name == "" {
		return false
	}
	if r.below {
		return strings.HasSuffix(name, "."+r.name)
	}
	return name == r.name
}

// matches reports whether the rule matches an address, or one of the names that resolved to the
// address.
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

// opens reports whether an allow rule opens addresses of a class. A range opens them only if it is
// inside the range of the class, so 0.0.0.0/0 opens nothing. A name opens them too. *.NAME does
// not, because everyone who can create names below NAME could choose the addresses.
func (r rule) opens(c class) bool {
	if r.name != "" {
		return !r.below
	}
	return contains(c.prefix, r.prefix)
}

// covers reports whether the rule matches everything that another rule matches.
func (r rule) covers(other rule) bool {
	if r.port != 0 && r.port != other.port {
		return false
	}
	switch {
	case (r.name == "") != (other.name == ""):
		return false
	case r.name == "":
		return contains(r.prefix, other.prefix)
	case !r.below:
		return !other.below && r.name == other.name
	}
	return r.hasName(other.name) || other.below && r.name == other.name
}
