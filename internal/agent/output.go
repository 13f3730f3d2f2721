package agent

import (
	"sync"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/ring"
)

// output is one stream of a process as a log with absolute offsets, of which the last part is kept in a ring.
type output struct {
	stream agentv1.Stream
	block  bool // the writer waits rather than dropping what nobody has acknowledged
	wake   func()

	mu    sync.Mutex
	room  sync.Cond // signalled when acked has moved
	ring  ring.Ring
	acked uint64 // up to where the reader has it
	eof   bool   // nothing more will come
	free  bool   // nobody waits for room any more: the process is forgotten
}

// firstRing is the size that most commands need.
const firstRing = 16 << 10

func newOutput(stream agentv1.Stream, block bool, wake func()) *output {
	o := &output{stream: stream, block: block, wake: wake, ring: ring.New(firstRing, ringSize)}
	o.room.L = &o.mu
	return o
}

// write appends to the log, waiting for room where the log blocks.
func (o *output) write(p []byte) {
	for len(p) > 0 {
		o.mu.Lock()
		for o.block && !o.free && o.ring.End()-o.acked >= ringSize {
			o.room.Wait()
		}
		n := min(len(p), ringSize)
		if o.block && !o.free {
			n = min(n, int(ringSize-(o.ring.End()-o.acked)))
		}
		o.ring.Write(p[:n])
		o.mu.Unlock()
		p = p[n:]
		o.wake()
	}
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
	if to > o.acked && to <= o.ring.End() {
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
	if from := o.ring.Start(); at < from {
		event.Gaps = append(event.Gaps, &agentv1.Gap{Stream: o.stream, From: at, To: from})
		at = from
	}
	if data := o.ring.Bytes(at, at+maxChunk); len(data) > 0 {
		event.Outputs = append(event.Outputs, &agentv1.Output{Stream: o.stream, Offset: at, Data: data})
		at += uint64(len(data))
	}
	return at, o.eof && at == o.ring.End()
}

// length is the offset of the end.
func (o *output) length() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ring.End()
}
