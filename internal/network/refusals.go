package network

import (
	"net"
	"strconv"
	"sync"
)

// Refusal is a target that the policy refused.
type Refusal struct {
	Target string `json:"target"` // a name or an address, with :PORT if a connection was refused
	Reason string `json:"reason"`
}

// maxWatched is the maximum number of different targets that Refusals counts. maxReturned is the
// maximum number of targets that it returns.
const (
	maxWatched  = 1000
	maxReturned = 8
)

// Refusals collects what the network refuses between WatchRefusals and Stop. It is safe for
// concurrent use.
type Refusals struct {
	stop func()

	mu    sync.Mutex
	seen  map[string]bool
	first []Refusal
}

// WatchRefusals begins to collect the refused targets. The caller must call Stop. The stack can be
// nil, if the machine has no network.
func (s *Stack) WatchRefusals() *Refusals {
	r := &Refusals{seen: map[string]bool{}, stop: func() {}}
	if s != nil {
		r.stop, _ = s.records.watchers.add(r)
	}
	return r
}

// Stop returns the number of different targets that were refused, and the first of them. The number
// is at most 1000.
func (r *Refusals) Stop() (count int, first []Refusal) {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen), r.first
}

// add counts a refused record. It ignores packets that programs do not send to a target of their
// choice, such as multicast.
func (r *Refusals) add(rec Record) {
	if rec.Protocol != "tcp" && rec.Protocol != "udp" && rec.Protocol != "dns" {
		return
	}
	target := rec.Name
	if target == "" {
		target = rec.Address.Unmap().String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Protocol != "dns" {
		target = net.JoinHostPort(target, strconv.Itoa(int(rec.Port)))
	}
	if r.seen[target] || len(r.seen) == maxWatched {
		return
	}
	r.seen[target] = true
	if len(r.first) < maxReturned {
		r.first = append(r.first, Refusal{target, rec.Refused})
	}
}
