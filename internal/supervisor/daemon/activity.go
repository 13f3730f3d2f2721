package daemon

import (
	"sync"
	"time"
)

// noteEvery is how often, at most, activity is noted in the database.
const noteEvery = time.Second

// busyNote is how often it is noted while something goes on and on.
const busyNote = 15 * time.Second

// activity knows when something was last done with a machine, and so when its time is over. While something is being done it never is.
type activity struct {
	ttl  time.Duration // 0: it has no end
	note func(last, expires time.Time) error

	mu      sync.Mutex
	busy    int
	last    time.Time
	noted   time.Time
	over    chan struct{}
	timer   *time.Timer
	closing chan struct{}
	closed  sync.WaitGroup
}

func newActivity(ttl time.Duration, note func(last, expires time.Time) error) *activity {
	a := &activity{ttl: ttl, note: note, last: time.Now(), over: make(chan struct{}), closing: make(chan struct{})}
	if ttl > 0 {
		a.timer = time.AfterFunc(ttl, a.check)
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
		if a.timer != nil {
			a.timer.Reset(a.ttl)
		}
		a.mu.Unlock()
	}
}

// check is called when the time may be over.
func (a *activity) check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := time.Until(a.last.Add(a.ttl))
	switch {
	case a.busy > 0:
		a.timer.Reset(a.ttl)
	case left > 0:
		a.timer.Reset(left)
	default:
		select {
		case <-a.over:
		default:
			close(a.over)
		}
	}
}

// expired is closed when the time is over.
func (a *activity) expired() <-chan struct{} { return a.over }

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
	if a.ttl > 0 {
		expires = last.Add(a.ttl)
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
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	close(a.closing)
	a.closed.Wait()
}
