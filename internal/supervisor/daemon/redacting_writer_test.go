package daemon

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/secret"
)

// slowReader is a writer that blocks until the test has taken the bytes.
type slowReader struct {
	came   chan string // receives the bytes of each write
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

// TestHoldWhileReaderBlocks calls hold while the reader blocks, either during a write or while
// bytes are held back. It checks that the position is after all written bytes, and that the kept
// output is complete. It also checks that no bytes are forwarded before the release.
func TestHoldWhileReaderBlocks(t *testing.T) {
	t.Parallel()
	d := &daemon{secrets: secrets{Redactor: secret.NewRedactor(secret.New("hunter2hunter2"))}}
	for what, c := range map[string]struct{ text, next string }{
		"a piece":           {"one hun", "ter2hunter2 two"},
		"a held back piece": {"h", "unter2hunter2 two"},
	} {
		text, next := c.text, c.next
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			reader := newSlowReader()
			var kept bytes.Buffer
			o := d.newWriters(reader, &kept)
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
			if at.Bytes != uint64(len(text)) || kept.String()+string(at.Cut.Held) != text || passed != kept.String() {
				t.Errorf("got position %+v, kept output %q, passed output %q", at, kept.String(), passed)
			}
			var rest bytes.Buffer
			rest.WriteString(kept.String())
			other := d.newWriter(&rest, at)
			io.WriteString(other, next)
			if other.Close(); strings.Contains(rest.String(), "ter2") || !strings.HasSuffix(rest.String(), secret.Hidden+" two") {
				t.Errorf("output from the restored position: got %q", rest.String())
			}
			second := write(next)
			o.release(false) // the reader has still received nothing
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

// TestSuspendedWriterFails checks that a writer accepts no bytes after its job was suspended. It
// also checks that the writer returns the error from its reader.
func TestSuspendedWriterFails(t *testing.T) {
	t.Parallel()
	var kept bytes.Buffer
	o := new(daemon).newWriters(io.Discard, &kept)
	io.WriteString(o, "before")
	o.hold()
	o.release(true)
	if n, err := io.WriteString(o, "after"); n != 0 || !errors.Is(err, errSuspended) || kept.String() != "before" {
		t.Errorf("got %d, %v, kept %q", n, err, kept.String())
	}
	check(t, o.Close())
	gone := errors.New("gone")
	o = new(daemon).newWriters(failing{gone}, &kept)
	for range 2 {
		if _, err := io.WriteString(o, "x"); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	}
	if err := o.Close(); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
