package network

import (
	"net/netip"
	"slices"

	"github.com/pyro-mcp/pyro/internal/network/egress"
)

// openConnection is an open TCP connection or UDP flow of the machine.
type openConnection struct {
	Record
	names []string // of the address, when the connection was allowed
	end   func()   // does not block
}

// Open returns the open connections, without byte counts.
func (s *Stack) Open() (all []Record) {
	for _, c := range s.open.list() {
		all = append(all, c.Record)
	}
	return all
}

// SetPolicy replaces the policy. It ends the open connections that the new policy refuses. It does
// not wait for the machine, so that a machine can't keep connections by not reading its link.
func (s *Stack) SetPolicy(p *egress.Policy) {
	s.policy.Store(p)
	for _, c := range s.open.list() {
		if s.changed(c.Record, c.names) != nil {
			c.end()
		}
	}
}

// track adds a connection to the open connections until the function done is called. If the policy
// has changed since the connection was allowed, and refuses the connection now, track ends it. The
// function done returns the record of the connection, with the reason if the policy ended it.
func (s *Stack) track(rec Record, names []string, end func()) (done func() Record) {
	remove, _ := s.open.add(openConnection{rec, names, end})
	if s.changed(rec, names) != nil {
		end()
	}
	return func() Record {
		remove()
		if r := s.changed(rec, names); r != nil {
			rec.Error = "the network policy has changed: " + r.Reason
		}
		return rec
	}
}

// changed returns the reason if the policy refuses a connection that it had allowed earlier.
// changed also checks the names that the address had then, even if they were resolved long ago.
func (s *Stack) changed(rec Record, names []string) *egress.Refusal {
	all := slices.Concat(s.names.of(rec.Address), names)
	return s.policy.Load().Connect(netip.AddrPortFrom(rec.Address, rec.Port), all, s.own.has)
}
