package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// gate is a writer that waits before each write until the test receives the data.
type gate chan string

func (g gate) Write(b []byte) (int, error) {
	g <- string(b)
	return len(b), nil
}

// TestDiscard checks that discard waits for a part of the input that is on its way to the program.
// It also checks that discard drops the rest, and keeps later input until the end of the pause.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal := make(gate)
		in := newInput(terminal, 0)
		defer in.close()
		go in.pump()
		put := func(text string) {
			t.Helper()
			if err := in.put([]byte(text)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		put("pending")
		put("queued")
		resumes := make(chan func())
		go func() { resumes <- in.discard() }()
		synctest.Wait()
		put("new")
		select {
		case <-resumes:
			t.Fatal("discard did not wait for the pending write")
		default:
		}
		if got := <-terminal; got != "pending" {
			t.Errorf("got %q", got)
		}
		resume := <-resumes
		synctest.Wait()
		select {
		case got := <-terminal:
			t.Errorf("got %q during the pause", got)
		default:
		}
		resume()
		if got := <-terminal; got != "new" {
			t.Errorf("got %q", got)
		}
	})
}

// TestInputRate checks that input is refused until earlier input is long enough ago.
func TestInputRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInput(nil, 10)
		for i, refused := range []bool{false, true, false, true} {
			if i == 2 {
				time.Sleep(800 * time.Millisecond)
			}
			if err := in.put([]byte("12345678\n")); (fault.KindOf(err) == fault.Exhausted) != refused {
				t.Errorf("input %d: %v", i, err)
			}
		}
	})
}
