package daemon

import (
	"sync"
	"time"
)

// recordInterval is the shortest time between two updates of the last activity in the database.
const recordInterval = time.Second

// busyInterval is the shortest time between two such updates while an operation runs.
const busyInterval = 15 * time.Second

// activity tracks when a machine was last used. It signals when the time to live has expired, and
// when the machine can be paused. Neither happens while an operation runs.
type activity struct {
	ttl, pause limit
	record     func(last, expires time.Time) error
	recording  sync.Mutex // serializes the calls of record

	mu       sync.Mutex
	busy     int // number of running operations
	last     time.Time
	recorded time.Time   // the time of the last use that the database has
	timer    *time.Timer // runs while the last use is not in the database
	fires    time.Time   // when timer fires; zero: it is stopped
	closed   bool
}

// limit is the maximum time that a machine can be unused.
type limit struct {
	after time.Duration // 0: no limit
	over  chan struct{} // receives a value when the limit is reached; buffers one value
	timer *time.Timer
}

func newActivity(ttl, pause time.Duration, record func(last, expires time.Time) error) *activity {
	a := &activity{record: record, last: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	for l, after := range map[*limit]time.Duration{&a.ttl: ttl, &a.pause: pause} {
		*l = limit{after: after, over: make(chan struct{}, 1)}
		if after > 0 {
			l.timer = time.AfterFunc(after, func() { a.check(l) })
		}
	}
	a.timer = time.AfterFunc(recordInterval, func() { a.recordNew(false) })
	a.fires = a.last.Add(recordInterval)
	return a
}

// begin reports the start of an operation. The caller must call the function end when the operation
// has ended.
func (a *activity) begin() (end func()) {
	a.mu.Lock()
	a.busy++
	a.used()
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		a.busy--
		a.used()
		for _, l := range []*limit{&a.ttl, &a.pause} {
			if l.timer != nil {
				l.timer.Reset(l.after)
			}
		}
		a.mu.Unlock()
	}
}

// used records that the machine is used now. The caller holds mu.
func (a *activity) used() {
	a.last = time.Now()
	a.arm(recordInterval)
}

// arm sets timer to fire after a time, unless it already fires earlier. The caller holds mu.
func (a *activity) arm(after time.Duration) {
	at := time.Now().Add(after)
	if !a.closed && (a.fires.IsZero() || at.Before(a.fires)) {
		a.fires = at
		a.timer.Reset(after)
	}
}

// setTTL changes the time to live; 0 means no limit. The change counts as a use.
func (a *activity) setTTL(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ttl.after = after
	if a.closed {
		return
	}
	a.used()
	switch {
	case after == 0:
		a.ttl.remove()
	case a.ttl.timer == nil:
		a.ttl.timer = time.AfterFunc(after, func() { a.check(&a.ttl) })
	default:
		a.ttl.timer.Reset(after)
	}
}

// remove removes the limit, also if it has just been reached. The caller holds mu.
func (l *limit) remove() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	select {
	case <-l.over:
	default:
	}
}

// check signals that a limit has been reached, or restarts the timer if the limit has not been
// reached yet.
func (a *activity) check(l *limit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := time.Until(a.last.Add(l.after))
	switch {
	case l.timer == nil: // the limit was removed
	case a.busy > 0:
		l.timer.Reset(l.after)
	case left > 0:
		l.timer.Reset(left)
	default:
		select {
		case l.over <- struct{}{}:
		default:
		}
	}
}

// expired returns a channel that receives one value when the time to live has expired.
func (a *activity) expired() <-chan struct{} { return a.ttl.over }

// idle returns a channel that receives one value when the machine can be paused. After each value,
// call again to rearm it.
func (a *activity) idle() <-chan struct{} { return a.pause.over }

// again restarts the timer of idle. After the given time without activity, the channel of idle
// receives another value.
func (a *activity) again(after time.Duration) { a.pause.timer.Reset(after) }

// times returns the time of the last activity, and the time at which the machine expires if it is
// not used again. expires is zero if the machine has no time to live.
func (a *activity) times() (last, expires time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.timesLocked()
}

func (a *activity) timesLocked() (last, expires time.Time) {
	last = a.last
	if a.busy > 0 {
		last = time.Now()
	}
	if a.ttl.after > 0 {
		expires = last.Add(a.ttl.after)
	}
	return last, expires
}

// recordNew records the last use, unless it has already been recorded. If an operation runs or the
// record fails, it restarts the timer.
func (a *activity) recordNew(closing bool) {
	a.recording.Lock()
	defer a.recording.Unlock()
	a.mu.Lock()
	if a.closed != closing {
		a.mu.Unlock()
		return
	}
	a.fires = time.Time{}
	last, expires := a.timesLocked()
	due := last.After(a.recorded) && (a.busy == 0 || time.Since(a.recorded) >= busyInterval)
	a.mu.Unlock()
	failed := due && a.record(last, expires) != nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if due && !failed {
		a.recorded = last
	}
	switch {
	case failed:
		a.arm(recordInterval)
	case a.busy > 0:
		a.arm(max(busyInterval-time.Since(a.recorded), recordInterval))
	case a.last.After(a.recorded):
		a.arm(recordInterval)
	}
}

// close stops the timers, and records the last use unless it has already been recorded.
func (a *activity) close() {
	a.mu.Lock()
	for _, l := range []*limit{&a.ttl, &a.pause} {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	a.closed = true
	a.timer.Stop()
	a.mu.Unlock()
	a.recordNew(true)
}
