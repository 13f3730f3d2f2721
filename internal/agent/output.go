package agent

import (
	"sync"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
)

// output is one stream of a process as a log with absolute offsets, of which the last part is kept in a ring.
type output struct {
	stream agentv1.Stream
	block  bool // the writer waits rather than dropping what nobody has acknowledged
	wake   func()

	mu    sync.Mutex
	room  sync.Cond // signalled when acked has moved
	ring  []byte    // grows to ringSize; byte n of the log is at n % len
	end   uint64    // offset of the next byte
	acked uint64    // up to where the reader has it
	eof   bool      // nothing more will come
	free  bool      // nobody waits for room any more: the process is forgotten
}

// firstRing is the size that most commands need.
const firstRing = 16 << 10

func newOutput(stream agentv1.Stream, block bool, wake func()) *output {
	o := &output{stream: stream, block: block, wake: wake}
	o.room.L = &o.mu
	return o
}

// start is the offset of the first byte that is kept.
func (o *output) start() uint64 {
	if o.end > uint64(len(o.ring)) {
		return o.end - uint64(len(o.ring))
	}
	return 0
}

// write appends to the log, waiting for room where the log blocks.
func (o *output) write(p []byte) {
	for len(p) > 0 {
		o.mu.Lock()
		for o.block && !o.free && o.end-o.acked >= ringSize {
			o.room.Wait()
		}
		n := min(len(p), ringSize)
		if o.block && !o.free {
			n = min(n, int(ringSize-(o.end-o.acked)))
		}
		o.grow(n)
		for rest := p[:n]; len(rest) > 0; {
			k := copy(o.ring[o.end%uint64(len(o.ring)):], rest)
			o.end += uint64(k)
			rest = rest[k:]
		}
		o.mu.Unlock()
		p = p[n:]
		o.wake()
	}
}

// grow makes the ring large enough for n more bytes beside what is kept, up to ringSize.
func (o *output) grow(n int) {
	kept := o.end - o.start()
	want := max(firstRing, len(o.ring))
	for uint64(want) < kept+uint64(n) && want < ringSize {
		want *= 2
	}
	if want == len(o.ring) {
		return
	}
	ring := make([]byte, want)
	for at := o.start(); at < o.end; {
		from := o.ring[at%uint64(len(o.ring)):]
		from = from[:min(uint64(len(from)), o.end-at)]
		at += uint64(copy(ring[at%uint64(want):], from))
	}
	o.ring = ring
}

// close says that nothing more will come.
func (o *output) close() {
	o.mu.Lock()
	o.eof = true
	o.mu.Unlock()
	o.wake()
}

// ack says up to where the reader has the log.
func (o *output) ack(to uint64) {
	o.mu.Lock()
	if to > o.acked && to <= o.end {
		o.acked = to
		o.room.Broadcast()
	}
	o.mu.Unlock()
}

// forget lets the writer go on without a reader.
func (o *output) forget() {
	o.mu.Lock()
	o.free = true
	o.room.Broadcast()
	o.mu.Unlock()
}

// next adds to an event what is new from offset at on, and gives the offset after it and whether that is the end of the log.
func (o *output) next(event *agentv1.ExecEvent, at uint64) (uint64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from := o.start(); at < from {
		event.Gaps = append(event.Gaps, &agentv1.Gap{Stream: o.stream, From: at, To: from})
		at = from
	}
	if at < o.end {
		data := make([]byte, min(o.end-at, maxChunk))
		for n := 0; n < len(data); {
			n += copy(data[n:], o.ring[(at+uint64(n))%uint64(len(o.ring)):])
		}
		event.Outputs = append(event.Outputs, &agentv1.Output{Stream: o.stream, Offset: at, Data: data})
		at += uint64(len(data))
	}
	return at, o.eof && at == o.end
}

// length is the offset of the end.
func (o *output) length() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}
