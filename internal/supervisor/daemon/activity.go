package daemon

import (
	"sync"
	"time"
)

// noteEvery is how often, at most, activity is noted in the database.
const noteEvery = time.Second

// busyNote is how often it is noted while something goes on and on.
const busyNote = 15 * time.Second

// activity knows when something was last done with a machine, and so when its time is over, and when it is to be paused. While something is being done neither is.
type activity struct {
	ttl, pause limit
	note       func(last, expires time.Time) error

	mu      sync.Mutex
	busy    int
	last    time.Time
	noted   time.Time
	closing chan struct{}
	closed  sync.WaitGroup
}

// limit is how long nothing may be done.
type limit struct {
	after time.Duration // 0: for ever
	over  chan struct{} // is told when it is over; has room for one
	timer *time.Timer
}

func newActivity(ttl, pause time.Duration, note func(last, expires time.Time) error) *activity {
	a := &activity{note: note, last: time.Now(), closing: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	for l, after := range map[*limit]time.Duration{&a.ttl: ttl, &a.pause: pause} {
		*l = limit{after: after, over: make(chan struct{}, 1)}
		if after > 0 {
			l.timer = time.AfterFunc(after, func() { a.check(l) })
		}
	}
	a.closed.Go(a.keepNoting)
	return a
}

// begin says that something is being done until the function is called that it gives.
func (a *activity) begin() (end func()) {
	a.mu.Lock()
	a.busy++
	a.last = time.Now()
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		a.busy--
		a.last = time.Now()
		for _, l := range []*limit{&a.ttl, &a.pause} {
			if l.timer != nil {
				l.timer.Reset(l.after)
			}
		}
		a.mu.Unlock()
	}
}

// check is called when a limit may be over.
func (a *activity) check(l *limit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := time.Until(a.last.Add(l.after))
	switch {
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

// expired tells once that the time is over.
func (a *activity) expired() <-chan struct{} { return a.ttl.over }

// idle tells that the machine is to be paused, unless something is done by now. It tells that again only after again.
func (a *activity) idle() <-chan struct{} { return a.pause.over }

// again has idle tell again after a time, unless something is done until then.
func (a *activity) again(after time.Duration) { a.pause.timer.Reset(after) }

// times tells when something was last done, and when the time is over if nothing is.
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

// keepNoting notes activity where it has not been noted yet.
func (a *activity) keepNoting() {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.noteNew()
		case <-a.closing:
			a.noteNew()
			return
		}
	}
}

func (a *activity) noteNew() {
	a.mu.Lock()
	last, expires := a.timesLocked()
	due := last.After(a.noted) && (a.busy == 0 || time.Since(a.noted) > busyNote)
	a.mu.Unlock()
	if !due {
		return
	}
	if a.note(last, expires) == nil {
		a.mu.Lock()
		a.noted = last
		a.mu.Unlock()
	}
}

// close ends the noting, with what there is to note.
func (a *activity) close() {
	a.mu.Lock()
	for _, l := range []*limit{&a.ttl, &a.pause} {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	a.mu.Unlock()
	close(a.closing)
	a.closed.Wait()
}
