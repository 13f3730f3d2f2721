package network

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyro-mcp/pyro/internal/network/egress"
)

const (
	// rememberFor is how long a name and the address that it resolved to are remembered. It is
	// longer than any TTL, because programs use addresses for longer than they should.
	rememberFor = time.Hour
	// maxRemembered is the maximum number of remembered addresses. maxNamesOf is the maximum number
	// of names per address.
	maxRemembered = 4096
	maxNamesOf    = 8
)

// names is the dns.Filter that decides which names the machine is allowed to look up. For each
// address, it remembers the names that resolved to the address.
type names struct {
	policy *atomic.Pointer[egress.Policy]
	own    func(netip.Addr) bool
	record func(Record)

	mu       sync.Mutex
	resolved map[netip.Addr][]resolution
}

type resolution struct {
	name string
	at   time.Time
}

// Name refuses names that the policy does not allow. The name must be in lower case without a
// trailing dot.
func (n *names) Name(name string) error {
	if r := n.policy.Load().Name(name); r != nil {
		n.record(Record{Time: time.Now(), Protocol: "dns", Name: name, Refused: r.Reason})
		return r
	}
	return nil
}

// Addresses returns the addresses that the machine is allowed to connect to. It removes all others.
func (n *names) Addresses(name string, found []netip.Addr) (allowed []netip.Addr) {
	for _, a := range found {
		if r := n.policy.Load().Resolve(name, a, n.own); r != nil {
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
	if len(n.resolved[a]) == 0 && len(n.resolved) >= maxRemembered {
		n.forgetOldest()
	}
	rest := slices.DeleteFunc(n.resolved[a], func(r resolution) bool { return r.name == name })
	if len(rest) >= maxNamesOf {
		rest = rest[1:]
	}
	n.resolved[a] = append(rest, resolution{name, now})
}

func (n *names) forgetOldest() {
	var oldest netip.Addr
	var at time.Time
	for a, all := range n.resolved {
		if last := all[len(all)-1].at; !oldest.IsValid() || last.Before(at) {
			oldest, at = a, last
		}
	}
	delete(n.resolved, oldest)
}

// of returns the names that resolved to an address, the latest name first.
func (n *names) of(a netip.Addr) (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range slices.Backward(n.resolved[a.Unmap()]) {
		if time.Since(t.at) < rememberFor {
			all = append(all, t.name)
		}
	}
	return all
}

// CheckRules returns an Invalid error if an egress rule is malformed or can never match on this
// host (see [egress.Policy.Check]).
func CheckRules(allow, deny []string) error {
	p, err := egress.New(allow, deny)
	if err != nil {
		return err
	}
	return p.Check(new(hostAddresses).has)
}

// CheckPublic returns an error with the reason if a machine without egress rules cannot connect to
// an address.
func CheckPublic(to netip.AddrPort) error {
	if r := new(egress.Policy).Connect(to, nil, new(hostAddresses).has); r != nil {
		return r
	}
	return nil
}

// ownFor is how long hostAddresses caches the list of the host's addresses.
const ownFor = time.Second

// hostAddresses determines which addresses belong to the host.
type hostAddresses struct {
	mu  sync.Mutex
	at  time.Time
	all map[netip.Addr]bool
}

// has reports whether an address belongs to the host: an interface has the address, or the host
// delivers packets for it locally. If this can't be determined, has returns true.
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

// ownOf returns the addresses that reach a host whose interface has the address n. These are the
// host's own address, the network's broadcast address, and the first address of the network. In
// IPv4 the first address is an old form of broadcast. In IPv6 it is the routers' anycast address.
func ownOf(n *net.IPNet) []netip.Addr {
	ones, bits := n.Mask.Size()
	own := addr(n.IP).Unmap()
	if own.Is4() {
		ones, bits = ones-(bits-32), 32
	}
	if bits-ones < 2 { // a /31 or /32 has no broadcast addresses
		return []netip.Addr{own}
	}
	first := netip.PrefixFrom(own, ones).Masked().Addr()
	last := first.AsSlice()
	for i := ones; i < bits; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return []netip.Addr{own, first, addr(last)}
}
