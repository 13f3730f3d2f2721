// Package egress decides which addresses a machine is allowed to reach, and which names it is
// allowed to look up.
//
// By default a machine can reach only the public Internet. Connections to loopback, private,
// link-local and other special addresses are refused in any notation. Connections to the host's own
// addresses are refused too. Rules can refuse more addresses, or open special ones. A decision
// about a connection depends on its address. A rule for a name matches only if the machine has
// resolved the name to that address (see [Policy.Resolve]).
//
// No rule opens loopback, link-local and multicast addresses, metadata services, and the host's own
// addresses.
package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Policy is a parsed set of rules. It is safe for concurrent use.
type Policy struct {
	allow, deny, open []rule
	off               bool // refuses everything
}

// Off returns the policy that refuses everything.
func Off() *Policy { return &Policy{off: true} }

var errOff = &Refusal{"the network is off"}

// New parses rules. Each rule is an address, a range, a name or *.NAME, optionally with :PORT. A
// deny rule refuses its targets. If there are allow rules, all targets that match no allow rule are
// refused. An allow rule opens a special range, or a part of it, if it names that range. A rule for
// a name opens the special addresses to which the name resolves. If a rule is malformed, New
// returns an Invalid error. It accepts rules that never match; [Policy.Check] finds them.
func New(allow, deny []string) (*Policy, error) { return NewOpen(allow, deny, nil) }

// NewOpen is like New. It also allows all targets that the rules in open match, unless a deny rule
// refuses them. Like an allow rule, such a rule opens special ranges. Unlike allow rules, these
// rules refuse nothing else.
func NewOpen(allow, deny, open []string) (*Policy, error) {
	p := &Policy{}
	for _, list := range []struct {
		what string
		from []string
		to   *[]rule
	}{{"allow", allow, &p.allow}, {"deny", deny, &p.deny}, {"open", open, &p.open}} {
		if len(list.from) > MaxRules {
			return nil, fault.Newf(fault.Invalid, "%d rules to %s: at most %d", len(list.from), list.what, MaxRules)
		}
		for _, text := range list.from {
			r, err := parseRule(text)
			if err != nil {
				return nil, fault.Newf(fault.Invalid, "rule to %s: %w", list.what, err)
			}
			*list.to = append(*list.to, r)
		}
	}
	return p, nil
}

// Refusal is the reason why a connection or a name was refused.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }

// Connect decides whether the machine is allowed to connect to an address and port. The parameter
// names contains the names that the machine resolved to this address, in lower case without a
// trailing dot. isHost reports whether an address belongs to the host. Connect returns nil if the
// connection is allowed.
func (p *Policy) Connect(to netip.AddrPort, names []string, isHost func(netip.Addr) bool) *Refusal {
	if p.off {
		return errOff
	}
	written := to.Addr()
	to = netip.AddrPortFrom(plain(written), to.Port())
	for _, r := range p.deny {
		if r.matches(to, names) {
			return refuse("denied by %s", r.text)
		}
	}
	c := classOf(to.Addr())
	if c.name != "" && !c.open {
		return refuse("%s address", c.name)
	}
	if isHost(to.Addr()) || isHost(written) {
		return refuse("address of the host")
	}
	if c.name != "" && !p.opened(c, to, names) {
		return refuse("%s address", c.name)
	}
	if len(p.allow) == 0 || p.allowed(to, names) {
		return nil
	}
	return refuse("not allowed by any rule")
}

func (p *Policy) allowed(to netip.AddrPort, names []string) bool {
	return matchesAny(p.allow, to, names) || matchesAny(p.open, to, names)
}

func matchesAny(rules []rule, to netip.AddrPort, names []string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.matches(to, names) })
}

// opened reports whether a rule opens the special address, whose class is c.
func (p *Policy) opened(c class, to netip.AddrPort, names []string) bool {
	opens := func(r rule) bool { return r.opens(c) && r.matches(to, names) }
	return slices.ContainsFunc(p.allow, opens) || slices.ContainsFunc(p.open, opens)
}

// Name decides whether the machine is allowed to look up a name. If there are allow rules, one of
// them must match the name, or must be a range that contains all addresses. The reason is that a
// query reaches the name servers of the domain, so it could leak data.
func (p *Policy) Name(name string) *Refusal {
	if p.off {
		return errOff
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, r := range p.deny {
		if r.hasName(name) && r.port == 0 {
			return refuse("denied by %s", r.text)
		}
	}
	if len(p.allow) == 0 {
		return nil
	}
	for _, r := range slices.Concat(p.allow, p.open) {
		if r.hasName(name) || r.name == "" && r.prefix.Bits() == 0 {
			return nil
		}
	}
	return refuse("not allowed by any rule")
}

// Resolve decides whether a DNS answer can contain an address. It refuses the address if the policy
// refuses connections to it on every port.
func (p *Policy) Resolve(name string, address netip.Addr, isHost func(netip.Addr) bool) *Refusal {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	names := []string{name}
	var refusal *Refusal
	for _, port := range p.ports() {
		if refusal = p.Connect(netip.AddrPortFrom(address, port), names, isHost); refusal == nil {
			return nil
		}
	}
	return refusal
}

// ports returns the ports that the rules mention, and 0 for all other ports.
func (p *Policy) ports() []uint16 {
	all := []uint16{0}
	for _, list := range [][]rule{p.allow, p.deny, p.open} {
		for _, r := range list {
			if r.port != 0 {
				all = append(all, r.port)
			}
		}
	}
	return all
}
