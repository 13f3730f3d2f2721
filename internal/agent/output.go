package agent

import (
	"sync"

	agentv1 "github.com/pyro-mcp/pyro/internal/gen/agent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// output is one output stream of a process. Its writer blocks while too much output is not
// acknowledged.
type output struct {
	stream agentv1.Stream
	notify func() // called after each change
	log    *program.Log

	mu       sync.Mutex
	room     sync.Cond // signalled when acked or detached changes
	acked    int64     // the reader has all bytes before this offset
	detached bool      // there is no reader, so the writer never blocks
}

func newOutput(stream agentv1.Stream, notify func()) *output {
	o := &output{stream: stream, notify: notify, log: program.NewLog(ringSize)}
	o.room.L = &o.mu
	return o
}

// write appends p to the log. It blocks while ringSize bytes are unacknowledged, unless the output
// is detached. There must be only one writer.
func (o *output) write(p []byte) {
	for len(p) > 0 {
		n := o.awaitRoom(min(len(p), ringSize))
		o.log.Write(p[:n])
		p = p[n:]
		o.notify()
	}
}

// awaitRoom waits until the writer is allowed to write. It returns how many bytes are allowed, at
// most n.
func (o *output) awaitRoom(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		room := ringSize - int(o.log.Len()-o.acked)
		switch {
		case o.detached:
			return n
		case room > 0:
			return min(n, room)
		}
		o.room.Wait()
	}
}

// close marks the end of the log.
func (o *output) close() {
	o.log.End()
	o.notify()
}

// ack records that the reader has all bytes before an offset. It ignores offsets beyond the end of
// the output.
func (o *output) ack(to uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if to > uint64(o.acked) && to <= o.length() {
		o.acked = int64(to)
		o.room.Broadcast()
	}
}

// detach lets the writer continue without a reader.
func (o *output) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.detached = true
	o.room.Broadcast()
}

// next adds output to an event, starting at an offset. It returns the offset after this output, and
// whether that offset is the end of a complete log.
func (o *output) next(event *agentv1.ExecEvent, at uint64) (next uint64, end bool) {
	piece := o.log.ReadRaw(int64(at), maxChunk)
	if piece.Dropped > 0 {
		event.Gaps = append(event.Gaps, &agentv1.Gap{Stream: o.stream, From: at, To: uint64(piece.From)})
	}
	if len(piece.Data) > 0 {
		event.Outputs = append(event.Outputs, &agentv1.Output{Stream: o.stream, Offset: uint64(piece.From), Data: piece.Data})
	}
	return uint64(piece.Next), piece.Ended
}

// length returns the offset of the end of the output.
func (o *output) length() uint64 { return uint64(o.log.Len()) }
