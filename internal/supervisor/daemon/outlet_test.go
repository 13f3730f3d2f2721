package daemon

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/secret"
)

// slowReader takes a piece where it is told to.
type slowReader struct {
	came   chan string // a piece that is there to be taken
	taken  chan struct{}
	failed error
}

func newSlowReader() *slowReader {
	return &slowReader{came: make(chan string), taken: make(chan struct{})}
}

func (r *slowReader) Write(b []byte) (int, error) {
	r.came <- string(b)
	<-r.taken
	return len(b), r.failed
}

// TestAnOutletIsHeldWhoeverReads holds outlets whose reader takes nothing, while a piece is on its way to them, or what was held back for a while. Each stands after all that
// has come, of which what it keeps has all, and passes on nothing before it is released.
func TestAnOutletIsHeldWhoeverReads(t *testing.T) {
	t.Parallel()
	d := &daemon{secrets: secrets{Redactor: secret.NewRedactor(secret.New("hunter2hunter2"))}}
	for what, c := range map[string]struct{ text, next string }{
		"a piece":            {"one hun", "ter2hunter2 two"},
		"what was held back": {"h", "unter2hunter2 two"},
	} {
		text, next := c.text, c.next
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			reader := newSlowReader()
			var kept bytes.Buffer
			o := d.outletFor(reader, &kept)
			write := func(text string) <-chan error {
				done := make(chan error, 1)
				go func() {
					_, err := io.WriteString(o, text)
					done <- err
				}()
				return done
			}
			first := write(text)
			passed := <-reader.came
			at := o.hold()
			if at.Came != uint64(len(text)) || kept.String()+string(at.Cut.Held) != text || passed != kept.String() {
				t.Errorf("it stands at %+v, has kept %q and passes on %q", at, kept.String(), passed)
			}
			var rest bytes.Buffer
			rest.WriteString(kept.String())
			other := d.outlet(&rest, at)
			io.WriteString(other, next)
			if other.Close(); strings.Contains(rest.String(), "ter2") || !strings.HasSuffix(rest.String(), secret.Hidden+" two") {
				t.Errorf("what goes on from there is %q", rest.String())
			}
			second := write(next)
			o.release(false) // and the reader has still taken nothing
			reader.taken <- struct{}{}
			check(t, <-first)
			for got := passed; got != rest.String(); {
				got += <-reader.came
				reader.taken <- struct{}{}
				if len(got) > len(rest.String()) {
					t.Fatalf("the reader got %q", got)
				}
			}
			check(t, <-second)
			check(t, o.Close())
		})
	}
}

// TestAnOutletThatIsLeft takes nothing more, and one whose reader has gone tells that.
func TestAnOutletThatIsLeft(t *testing.T) {
	t.Parallel()
	var kept bytes.Buffer
	o := new(daemon).outletFor(io.Discard, &kept)
	io.WriteString(o, "before")
	o.hold()
	o.release(true)
	if n, err := io.WriteString(o, "after"); n != 0 || !errors.Is(err, errLeft) || kept.String() != "before" {
		t.Errorf("%d, %v, and it has kept %q", n, err, kept.String())
	}
	check(t, o.Close())
	gone := errors.New("gone")
	o = new(daemon).outletFor(failing{gone}, &kept)
	for range 2 {
		if _, err := io.WriteString(o, "x"); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	}
	if err := o.Close(); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
