package daemon

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// notes collects the calls of note. Its times come from the clock of the test.
type notes struct {
	mu    sync.Mutex
	times []time.Duration // time of each call of note, since the test began
	last  []time.Duration // time of the last use, as passed to each call
	fail  bool
	began time.Time
}

func (n *notes) note(last, expires time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail {
		return errors.New("the disk is full")
	}
	n.times, n.last = append(n.times, time.Since(n.began)), append(n.last, last.Sub(n.began))
	return nil
}

func (n *notes) failing(yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = yes
}

func over(a *activity) bool {
	select {
	case <-a.expired():
		return true
	default:
		return false
	}
}

func TestTimeToLiveNeedsInactivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{began: time.Now()}
		a := newActivity(time.Minute, 0, n.note)
		defer a.close()
		time.Sleep(59 * time.Second)
		end := a.begin()
		time.Sleep(10 * time.Minute)
		if synctest.Wait(); over(a) {
			t.Fatal("time was over while something was done")
		}
		if last, expires := a.times(); !last.Equal(time.Now()) || expires.Sub(last) != time.Minute {
			t.Errorf("while something is done: %v, %v", last, expires)
		}
		second := a.begin()
		end()
		time.Sleep(10 * time.Minute)
		if synctest.Wait(); over(a) {
			t.Fatal("time was over while one of two was done")
		}
		second()
		time.Sleep(59 * time.Second)
		if synctest.Wait(); over(a) {
			t.Fatal("time was over early")
		}
		a.begin()()
		time.Sleep(59 * time.Second)
		if synctest.Wait(); over(a) {
			t.Fatal("activity in between did not extend the time")
		}
		time.Sleep(time.Second)
		if synctest.Wait(); !over(a) {
			t.Error("it never ends")
		}
		a.begin()()
		time.Sleep(10 * time.Minute) // it ends only once
	})
}

func TestNoTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newActivity(0, 0, (&notes{}).note)
		defer a.close()
		a.begin()()
		time.Sleep(5 * time.Hour)
		if _, expires := a.times(); over(a) || !expires.IsZero() {
			t.Error("it ended")
		}
	})
}

func TestActivityIsRecordedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{began: time.Now()}
		a := newActivity(time.Minute, 0, n.note)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(n.times) != 1 {
			t.Errorf("noted at %v", n.times)
		}
		for range 100 { // many uses within a second are recorded once
			a.begin()()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(n.times) != 2 || n.last[1] != 10*time.Second+99*time.Millisecond {
			t.Errorf("noted at %v: %v", n.times, n.last)
		}
		end := a.begin()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if long := len(n.times) - 2; long < 3 || long > 6 {
			t.Errorf("got %d records in a minute of one command", long)
		}
		n.failing(true)
		end()
		time.Sleep(5 * time.Second)
		n.failing(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if last := n.last[len(n.last)-1]; time.Since(n.began)-last != 7*time.Second {
			t.Errorf("a failed record was not repeated: %v", n.last)
		}
		a.begin()()
		a.close()
		if last := n.last[len(n.last)-1]; last != time.Since(n.began) {
			t.Errorf("at the end the last is %v", last)
		}
	})
}

// TestIdleMachinesWriteNothing checks that no timer runs without activity. It also checks that many
// short operations do not delay the records.
func TestIdleMachinesWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{began: time.Now()}
		a := newActivity(0, 0, n.note)
		time.Sleep(time.Hour)
		synctest.Wait()
		if a.mu.Lock(); len(n.times) != 1 || !a.fires.IsZero() {
			t.Errorf("recorded at %v, the timer fires at %v", n.times, a.fires)
		}
		a.mu.Unlock()
		for range 100 {
			a.begin()()
			time.Sleep(recordInterval / 10)
		}
		synctest.Wait()
		if got := len(n.times) - 1; got < 9 || got > 11 {
			t.Errorf("%d notes in 10 s of short operations", got)
		}
		a.close()
		a.begin()()
		time.Sleep(time.Hour)
		synctest.Wait()
		if last := n.times[len(n.times)-1]; time.Since(n.began)-last < time.Hour {
			t.Error("got a record after the end")
		}
	})
}

// TestRemovedTimeToLive checks that a machine without a time to live never expires.
func TestRemovedTimeToLive(t *testing.T) {
	for name, before := range map[string]time.Duration{"there was one": time.Minute, "there was none": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newActivity(before, 0, (&notes{began: time.Now()}).note)
				defer a.close()
				end := a.begin()
				a.setTTL(0)
				end()
				time.Sleep(24 * time.Hour)
				if synctest.Wait(); over(a) {
					t.Error("its time was over")
				}
				if _, expires := a.times(); !expires.IsZero() {
					t.Errorf("it expires at %v", expires)
				}
			})
		})
	}
}

func TestChangedTimeToLive(t *testing.T) {
	for name, before := range map[string]time.Duration{"shorter": time.Hour, "longer": 10 * time.Second, "the first": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &notes{began: time.Now()}
				a := newActivity(before, 0, n.note)
				defer a.close()
				time.Sleep(9 * time.Second)
				a.setTTL(time.Minute)
				if last, expires := a.times(); !last.Equal(time.Now()) || expires.Sub(last) != time.Minute {
					t.Errorf("%v, %v", last, expires)
				}
				time.Sleep(59 * time.Second)
				if synctest.Wait(); over(a) {
					t.Fatal("time was over too early")
				}
				time.Sleep(2 * time.Second)
				if synctest.Wait(); !over(a) {
					t.Fatal("time was not over")
				}
				if n.last[len(n.last)-1] != 9*time.Second {
					t.Errorf("recorded: %v", n.last)
				}
			})
		})
	}
}
