package network

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/network/egress"
)

const (
	// rememberFor is how long an address counts as one of a name that the machine was told: programs keep what they were told for longer than they should.
	rememberFor = time.Hour
	// maxRemembered bounds how many addresses are kept in mind, and maxNamesOf the names of each.
	maxRemembered = 4096
	maxNamesOf    = 8
)

// names decides what names the machine may look up (dns.Filter), and keeps in mind under which it was told an address.
type names struct {
	policy *egress.Policy
	own    func(netip.Addr) bool
	record func(Record)

	mu   sync.Mutex
	told map[netip.Addr][]told
}

type told struct {
	name string
	at   time.Time
}

// Name refuses a name, in lower case and without a dot at the end, that may not be looked up.
func (n *names) Name(name string) error {
	if r := n.policy.Name(name); r != nil {
		n.record(Record{Time: time.Now(), Protocol: "dns", Name: name, Refused: r.Reason})
		return r
	}
	return nil
}

// Addresses gives those of the addresses found that the machine may be told: a name leads nowhere where its address would not.
func (n *names) Addresses(name string, found []netip.Addr) (allowed []netip.Addr) {
	for _, a := range found {
		if r := n.policy.Told(name, a, n.own); r != nil {
			n.record(Record{Time: time.Now(), Protocol: "dns", Name: name, Address: a.Unmap(), Refused: r.Reason})
			continue
		}
		allowed = append(allowed, a)
		n.remember(a.Unmap(), name)
	}
	return allowed
}

func (n *names) remember(a netip.Addr, name string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.told[a]) == 0 && len(n.told) >= maxRemembered {
		n.forgetOldest()
	}
	rest := slices.DeleteFunc(n.told[a], func(t told) bool { return t.name == name })
	if len(rest) >= maxNamesOf {
		rest = rest[1:]
	}
	n.told[a] = append(rest, told{name, now})
}

func (n *names) forgetOldest() {
	var oldest netip.Addr
	var at time.Time
	for a, all := range n.told {
		if last := all[len(all)-1].at; !oldest.IsValid() || last.Before(at) {
			oldest, at = a, last
		}
	}
	delete(n.told, oldest)
}

// of gives the names that the machine was told an address for, the last one first.
func (n *names) of(a netip.Addr) (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range slices.Backward(n.told[a.Unmap()]) {
		if time.Since(t.at) < rememberFor {
			all = append(all, t.name)
		}
	}
	return all
}

// ownFor is how long the addresses of the host are taken to be the same.
const ownFor = time.Second

// hostAddresses knows the addresses at which the host is met.
type hostAddresses struct {
	mu  sync.Mutex
	at  time.Time
	all map[netip.Addr]bool
}

// has tells whether an address is one of the host's: an interface has it, or packets to it are delivered on the host. If that can't be found out, each is.
func (h *hostAddresses) has(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if h.onInterface(a) {
		return true
	}
	here, err := deliversHere(a)
	return here || err != nil
}

func (h *hostAddresses) onInterface(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil || time.Since(h.at) > ownFor {
		found, err := net.InterfaceAddrs()
		if err != nil {
			return true
		}
		h.all, h.at = map[netip.Addr]bool{}, time.Now()
		for _, f := range found {
			if n, ok := f.(*net.IPNet); ok {
				for _, a := range ownOf(n) {
					h.all[a] = true
				}
			}
		}
	}
	return h.all[a]
}

// ownOf gives the addresses at which a host is met that has one on a network: that one, and those that mean all who are there, or all its routers.
func ownOf(n *net.IPNet) []netip.Addr {
	ones, bits := n.Mask.Size()
	own := addr(n.IP).Unmap()
	if own.Is4() {
		ones, bits = ones-(bits-32), 32
	}
	if bits-ones < 2 { // it has no such addresses
		return []netip.Addr{own}
	}
	first := netip.PrefixFrom(own, ones).Masked().Addr()
	last := first.AsSlice()
	for i := ones; i < bits; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return []netip.Addr{own, first, addr(last)}
}
