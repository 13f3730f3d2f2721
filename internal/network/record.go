package network

import (
	"net/netip"
	"sync"
	"time"
)

// Record describes a connection of the machine, or a refused packet, connection or name. Logs store
// records as JSON.
type Record struct {
	Time     time.Time     `json:"time"`               // start of the connection.
	Took     time.Duration `json:"took,omitempty"`     // 0 if the connection was refused.
	Protocol string        `json:"protocol"`           // tcp, udp, icmp, icmpv6, dns, or ip for all other protocols.
	Name     string        `json:"name,omitempty"`     // the name that was resolved to the address, or the name in a query; can be empty.
	Address  netip.Addr    `json:"address,omitzero"`   // not valid if a name was refused.
	Port     uint16        `json:"port,omitempty"`     // 0 if the protocol has no ports.
	Sent     int64         `json:"sent,omitempty"`     // payload bytes from the machine.
	Received int64         `json:"received,omitempty"` // payload bytes to the machine.
	Refused  string        `json:"refused,omitempty"`  // reason for the refusal, or empty if the connection was allowed.
	Error    string        `json:"error,omitempty"`    // why an allowed connection failed.
	Times    int           `json:"times,omitempty"`    // number of identical refusals since the last record, 1 or more
}

const (
	// recordEvery is the minimum interval between records of the same refusal.
	recordEvery = 2 * time.Second
	// maxRefusals is the maximum number of different refusals that are recorded per interval.
	maxRefusals = 512
)

// recorder forwards records. It merges repeated refusals and counts them, so that a machine that
// floods its network can't fill the log.
type recorder struct {
	to       func(Record)
	watchers registry[*Refusals]

	mu       sync.Mutex
	began    time.Time      // start of the interval
	refusals map[Record]int // number of repetitions in this interval; the key is the record without its time
	more     int            // refusals beyond maxRefusals
}

func (r *recorder) record(rec Record) {
	rec.Times = 1
	if rec.Refused == "" {
		r.to(rec)
		return
	}
	for _, w := range r.watchers.list() {
		w.add(rec)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Time.Sub(r.began) >= recordEvery {
		r.flush(rec.Time)
	}
	key := rec
	key.Time = time.Time{}
	_, known := r.refusals[key]
	switch {
	case known:
		r.refusals[key]++
	case len(r.refusals) == maxRefusals:
		r.more++
	default:
		r.refusals[key] = 0
		r.to(rec)
	}
}

// flush records the repeated refusals and begins a new interval.
func (r *recorder) flush(now time.Time) {
	for key, times := range r.refusals {
		if times > 0 {
			key.Time, key.Times = now, times
			r.to(key)
		}
	}
	if r.more > 0 {
		r.to(Record{Time: now, Protocol: "ip", Refused: "more kinds of packets than are recorded", Times: r.more})
	}
	r.began, r.refusals, r.more = now, map[Record]int{}, 0
}

// close records the remaining refusals.
func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush(time.Now())
}
