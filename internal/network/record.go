package network

import (
	"net/netip"
	"sync"
	"time"
)

// Record is what the machine did, or was refused. Logs keep it as JSON.
type Record struct {
	Time     time.Time     `json:"time"`               // of its begin
	Took     time.Duration `json:"took,omitempty"`     // 0 for what was refused
	Protocol string        `json:"protocol"`           // tcp, udp, icmp, icmpv6, dns, or ip for anything else
	Name     string        `json:"name,omitempty"`     // that the address was told for, or that was asked for; empty: none is known
	Address  netip.Addr    `json:"address,omitzero"`   // not valid for a name that was refused
	Port     uint16        `json:"port,omitempty"`     // 0 where there are none
	Sent     int64         `json:"sent,omitempty"`     // bytes of content, by the machine
	Received int64         `json:"received,omitempty"` //
	Refused  string        `json:"refused,omitempty"`  // why; empty: it was allowed
	Error    string        `json:"error,omitempty"`    // why the world could not be reached, though it was allowed
	Times    int           `json:"times,omitempty"`    // that the same was refused, the last of them now; 1 or more
}

const (
	// recordEvery is how often the same refusal is recorded.
	recordEvery = 2 * time.Second
	// maxRefusals is how many different ones are kept in mind, and recorded in that time.
	maxRefusals = 512
)

// recorder passes records on. What is refused again and again is told once in a while, with how often that was: a machine that floods fills no log.
type recorder struct {
	to func(Record)

	mu       sync.Mutex
	began    time.Time      // of this round
	refusals map[Record]int // by the record without its time: how many more came in this round
	more     int            // that were of too many kinds
}

func (r *recorder) record(rec Record) {
	rec.Times = 1
	if rec.Refused == "" {
		r.to(rec)
		return
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

// flush tells what came again, and begins a new round.
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

// close tells what has not been told.
func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush(time.Now())
}
