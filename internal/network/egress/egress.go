// Package egress decides what a machine may reach of the world.
//
// By default that is the public Internet, and nothing else: no loopback, private, link-local or otherwise special address, in whatever form it is written, and
// none of the host. Rules narrow this. An address is what is decided on: names only count as those that the machine was told it by ([Policy.Told]).
package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Policy is a decided set of rules. It is safe for concurrent use.
type Policy struct {
	allow, deny []rule
}

// New makes the policy of rules as users write them: an address, a range, a name or *.NAME, with :PORT behind it or not. What a deny rule is for is refused. Where
// there is an allow rule, what none of them is for is refused. An allow rule within a private range opens that part of it. Invalid for a rule that is none.
func New(allow, deny []string) (*Policy, error) {
	p := &Policy{}
	for _, list := range []struct {
		what string
		from []string
		to   *[]rule
	}{{"allow", allow, &p.allow}, {"deny", deny, &p.deny}} {
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

// Refusal says why something is refused.
type Refusal struct{ Reason string }

// Error is the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }

// Connect decides on an address and port, which the machine was told under these names, in lower case and without a dot at the end. own tells whether an address
// is one of the host's. nil: it may.
func (p *Policy) Connect(to netip.AddrPort, names []string, own func(netip.Addr) bool) *Refusal {
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
	if own(to.Addr()) || own(written) {
		return refuse("address of the host")
	}
	if c.name != "" && !p.opened(to, names) {
		return refuse("%s address", c.name)
	}
	if len(p.allow) == 0 || p.allowed(to, names) {
		return nil
	}
	return refuse("not allowed by any rule")
}

func (p *Policy) allowed(to netip.AddrPort, names []string) bool {
	for _, r := range p.allow {
		if r.matches(to, names) {
			return true
		}
	}
	return false
}

// opened tells whether a rule opens a special range for an address.
func (p *Policy) opened(to netip.AddrPort, names []string) bool {
	for _, r := range p.allow {
		if r.opens() && r.matches(to, names) {
			return true
		}
	}
	return false
}

// Name decides whether a name may be looked up. Where there are allow rules, one of them has to be for it, or for all addresses: a name that is looked up carries
// what the machine likes to whoever serves it.
func (p *Policy) Name(name string) *Refusal {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, r := range p.deny {
		if r.hasName(name) && r.port == 0 {
			return refuse("denied by %s", r.text)
		}
	}
	if len(p.allow) == 0 {
		return nil
	}
	for _, r := range p.allow {
		if r.hasName(name) || r.name == "" && r.prefix.Bits() == 0 {
			return nil
		}
	}
	return refuse("not allowed by any rule")
}

// Told decides whether the machine may be told that a name has an address: not one that it can't connect to at any port.
func (p *Policy) Told(name string, address netip.Addr, own func(netip.Addr) bool) *Refusal {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	names := []string{name}
	var refusal *Refusal
	for _, port := range p.ports() {
		if refusal = p.Connect(netip.AddrPortFrom(address, port), names, own); refusal == nil {
			return nil
		}
	}
	return refusal
}

// ports are those that rules are about, and one that none is about.
func (p *Policy) ports() []uint16 {
	all := []uint16{0} // no rule has it
	for _, list := range [][]rule{p.allow, p.deny} {
		for _, r := range list {
			if r.port != 0 {
				all = append(all, r.port)
			}
		}
	}
	return all
}
