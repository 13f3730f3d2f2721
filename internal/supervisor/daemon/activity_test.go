package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyro-mcp/pyro/internal/store"
)

// notes keep what is noted, by the clock of a test.
type notes struct {
	mu    sync.Mutex
	times []time.Duration // of the notes, since the test began
	last  []time.Duration // what each said was last done
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

func TestTimeIsOverWhenNothingWasDoneForSoLong(t *testing.T) {
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
			t.Fatal("what was done in between does not count")
		}
		time.Sleep(time.Second)
		if synctest.Wait(); !over(a) {
			t.Error("it never ends")
		}
		a.begin()()
		time.Sleep(10 * time.Minute) // and is over once
	})
}

func TestWithoutATimeToLiveItNeverEnds(t *testing.T) {
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

func TestActivityIsNotedSoonAndSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{began: time.Now()}
		a := newActivity(time.Minute, 0, n.note)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(n.times) != 1 {
			t.Errorf("noted at %v", n.times)
		}
		for range 100 { // many in a second are one note
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
			t.Errorf("noted %d times in a minute of one command", long)
		}
		n.failing(true)
		end()
		time.Sleep(5 * time.Second)
		n.failing(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if last := n.last[len(n.last)-1]; time.Since(n.began)-last != 7*time.Second {
			t.Errorf("what could not be noted is forgotten: %v", n.last)
		}
		a.begin()()
		a.close()
		if last := n.last[len(n.last)-1]; last != time.Since(n.began) {
			t.Errorf("at the end the last is %v", last)
		}
	})
}

func TestExcerpts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, half - 1, half, half + 1, 2*half - 1, 2 * half, 2*half + 1, 3 * half, 5*half + 7, 1 << 20} {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte('a' + i%23)
		}
		for range 20 {
			var e excerpt
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(1<<random.IntN(18)))
				if taken, err := e.Write(rest[:n]); taken != n || err != nil {
					t.Fatalf("%d of %d, %v", taken, n, err)
				}
				rest = rest[n:]
				if cap(e.tail) > 4*store.OutputBytes {
					t.Fatalf("it holds %d bytes", cap(e.tail))
				}
			}
			want := string(text)
			if size > store.OutputBytes {
				want = fmt.Sprintf("%s\n[… %d bytes are not kept …]\n%s", text[:half], size-2*half, text[size-half:])
			}
			if got := e.bytes(); !bytes.Equal(got, []byte(want)) || e.total != int64(size) {
				t.Fatalf("%d bytes: other %d bytes are kept: %.80q", size, len(got), strings.TrimPrefix(string(got), string(text[:min(half, size)])))
			}
		}
	}
}
