package agent

import (
	"bytes"
	"math/rand"
	"testing"
	"time"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// written returns the value of byte n in the logs of these tests.
func written(n uint64) byte { return byte(n*2654435761>>7) ^ byte(n) }

// start returns the offset of the first byte that o still stores.
func start(o *output) uint64 {
	from, _ := o.log.Retained()
	return uint64(from)
}

// reader reads a log through its events and checks the data.
type reader struct {
	at   uint64
	gaps uint64
}

func (r *reader) read(t *testing.T, o *output) (end bool) {
	t.Helper()
	event := &agentv1.ExecEvent{}
	at, end := o.next(event, r.at)
	if len(event.Gaps) > 1 || len(event.Outputs) > 1 {
		t.Fatalf("%d gaps and %d outputs in one event", len(event.Gaps), len(event.Outputs))
	}
	for _, g := range event.Gaps {
		if g.From != r.at || g.To <= g.From {
			t.Fatalf("a gap from %d to %d, at %d", g.From, g.To, r.at)
		}
		r.gaps += g.To - g.From
		r.at = g.To
	}
	for _, c := range event.Outputs {
		if c.Offset != r.at || len(c.Data) == 0 || len(c.Data) > maxChunk {
			t.Fatalf("got %d bytes at offset %d, want offset %d", len(c.Data), c.Offset, r.at)
		}
		for i, b := range c.Data {
			if b != written(c.Offset+uint64(i)) {
				t.Fatalf("byte %d differs from the written byte", c.Offset+uint64(i))
			}
		}
		r.at += uint64(len(c.Data))
	}
	if at != r.at {
		t.Fatalf("reported offset %d, actual offset %d", at, r.at)
	}
	return end
}

// TestOutputDropsOldest checks that a log without a reader stores the last ringSize bytes.
func TestOutputDropsOldest(t *testing.T) {
	for seed := range testenv.Seeds(t, 3) {
		random := rand.New(rand.NewSource(int64(seed)))
		o := newOutput(agentv1.Stream_STREAM_STDERR, func() {})
		o.detach() // so that its writer never blocks
		var end uint64
		readers := []*reader{{}, {}, {}}
		for range 60 {
			p := make([]byte, random.Intn([]int{10, 5000, 100_000, 3 << 20}[random.Intn(4)]))
			for i := range p {
				p[i] = written(end + uint64(i))
			}
			o.write(p)
			end += uint64(len(p))
			if o.length() != end || end-start(o) > ringSize {
				t.Fatalf("seed %d: got length %d after %d bytes, %d kept", seed, o.length(), end, end-start(o))
			}
			if kept := end - start(o); kept != min(end, ringSize) {
				t.Fatalf("seed %d: %d of %d bytes are kept", seed, kept, end)
			}
			from := start(o)
			for _, r := range readers {
				if random.Intn(3) > 0 {
					continue
				}
				before := *r
				r.read(t, o)
				if lost := r.gaps - before.gaps; before.at < from && lost != from-before.at || before.at >= from && lost != 0 {
					t.Fatalf("seed %d: got a gap of %d bytes at offset %d, first kept offset is %d", seed, lost, before.at, from)
				}
			}
		}
		o.close()
		for _, r := range readers {
			for !r.read(t, o) {
			}
			if r.at != end {
				t.Fatalf("seed %d: the end is %d, not %d", seed, r.at, end)
			}
		}
	}
}

// TestOutputBlocks checks that a log with a reader loses no data, even if acknowledgements are
// late. A reader that restarts at its last acknowledgement must read the same bytes again.
func TestOutputBlocks(t *testing.T) {
	for seed := range testenv.Seeds(t, 8) {
		random := rand.New(rand.NewSource(int64(seed)))
		news := make(chan struct{}, 1)
		o := newOutput(agentv1.Stream_STREAM_STDOUT, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		size := uint64(random.Intn(6 << 20))
		sizes := rand.New(rand.NewSource(int64(seed) + 1000))
		go func() {
			for at := uint64(0); at < size; {
				p := make([]byte, min(size-at, uint64(1+sizes.Intn(90_000))))
				for i := range p {
					p[i] = written(at + uint64(i))
				}
				o.write(p)
				at += uint64(len(p))
			}
			o.close()
		}()
		r := &reader{}
		var acked uint64
		for patience := time.After(testenv.Patience); ; {
			at := r.at
			end := r.read(t, o)
			if end {
				break
			}
			if random.Intn(8) == 0 {
				r.at = acked + uint64(random.Int63n(int64(r.at-acked+1))) // simulates a reader that lost unacknowledged output
			}
			if random.Intn(3) == 0 {
				acked = max(acked, r.at-uint64(random.Int63n(int64(r.at-acked+1))))
				o.ack(acked)
			}
			if r.at > at {
				continue
			}
			o.ack(r.at)
			acked = max(acked, r.at)
			select {
			case <-news:
			case <-time.After(10 * time.Millisecond):
			case <-patience:
				t.Fatalf("seed %d: no progress at %d of %d", seed, r.at, size)
			}
		}
		if r.at != size || r.gaps != 0 || o.length()-start(o) > ringSize {
			t.Fatalf("seed %d: %d of %d bytes, %d lost, %d kept", seed, r.at, size, r.gaps, o.length()-start(o))
		}
	}
}

func TestOutputWaitsForSpace(t *testing.T) {
	o := newOutput(agentv1.Stream_STREAM_STDOUT, func() {})
	o.write(make([]byte, ringSize))
	wrote := make(chan struct{})
	go func() {
		o.write([]byte("x"))
		o.write(make([]byte, 2*ringSize)) // does not block after detach
		close(wrote)
	}()
	select {
	case <-wrote:
		t.Fatal("a full log took more")
	case <-time.After(30 * time.Millisecond):
	}
	o.ack(ringSize + 5) // an offset beyond the end is ignored
	if o.length() != ringSize {
		t.Fatal("an acknowledgement beyond the end of the output let the writer continue")
	}
	o.ack(1)
	testenv.Eventually(t, "the writer continues after an acknowledgement", func() bool { return o.length() == ringSize+1 })
	o.detach()
	<-wrote
}

func TestInputByOffset(t *testing.T) {
	r, w, err := openPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in := &input{to: w}
	for _, c := range []struct {
		offset   uint64
		data     string
		eof      bool
		accepted uint64
		closed   bool
		fails    bool
	}{
		{0, "hello", false, 5, false, false},
		{0, "hello", false, 5, false, false},
		{3, "lo, wor", false, 10, false, false},
		{11, "x", false, 10, false, true},
		{10, "", false, 10, false, false},
		{5, ", world", true, 12, true, false},
		{12, "more", false, 12, true, false},
	} {
		accepted, closed, err := in.write(c.offset, []byte(c.data), c.eof)
		if accepted != c.accepted || closed != c.closed || err != nil != c.fails {
			t.Errorf("%+v: %d, %v, %v", c, accepted, closed, err)
		}
	}
	var b bytes.Buffer
	if b.ReadFrom(r); b.String() != "hello, world" {
		t.Errorf("got %q", b.String())
	}
}
