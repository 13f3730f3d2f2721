package agent

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/pty"
)

// input is the standard input of a process. Each chunk has an absolute offset, so that a chunk that
// arrives twice is written only once.
type input struct {
	mu       sync.Mutex // locked during a write, so that chunks stay in order.
	resumed  sync.Cond  // signalled when writes can continue, or when closed changes.
	to       *os.File   // nil if the process has no input.
	terminal bool
	accepted uint64 // the offset of the next byte.
	arrived  uint64 // the end of the last chunk, even if it is not yet written.
	discards uint64 // input before this offset is not written.
	midLine  bool   // the last accepted byte is not the end of a line.
	closed   bool

	stops struct {
		sync.Mutex
		pending int // as long as this is not 0, writes return immediately.
	}
}

func newInput(to *os.File, terminal bool) *input {
	in := &input{to: to, terminal: terminal}
	in.resumed.L = &in.mu
	return in
}

// endOfFile is the character that ends the input of a terminal. In the middle of a line, it only
// sends the unfinished line to the reader.
const endOfFile = 4

var errGapInInput = errors.New("input is missing before this offset")

// write writes data at an offset. It returns when the data is in the pipe or was discarded, or when
// the process no longer reads its input.
func (in *input) write(offset uint64, data []byte, eof bool) (accepted uint64, closed bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.to == nil || in.closed {
		return in.accepted, true, nil
	}
	if offset > in.accepted {
		return in.accepted, false, errGapInInput
	}
	end := offset + uint64(len(data))
	in.arrived = max(in.arrived, end)
	for in.accepted < end && !in.closed {
		if in.accepted < in.discards {
			in.accepted, in.midLine = min(end, in.discards), false
			continue
		}
		rest := data[in.accepted-offset:]
		n, err := in.send(rest)
		in.accepted += uint64(n)
		if n > 0 {
			in.midLine = rest[n-1] != '\n' && rest[n-1] != '\r'
		}
		in.settle(err)
	}
	if eof && !in.closed {
		if in.terminal {
			in.sendEnd()
		} else {
			in.close()
		}
	}
	return in.accepted, in.closed, nil
}

// send writes data, or the beginning of it, to the process.
func (in *input) send(data []byte) (n int, err error) {
	if in.terminal {
		data = in.beforeKey(data)
	}
	return in.to.Write(data)
}

// settle handles the error of send. After an interruption, it waits until writes can continue. It
// unlocks mu while it waits. So the caller must first record how much was written, and must examine
// the state again afterwards.
func (in *input) settle(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		for in.stopped() && !in.closed {
			in.resumed.Wait()
		}
	case err != nil: // no process reads the input any more
		in.close()
	}
}

// sendEnd ends the input of a terminal. The terminal itself stays open.
func (in *input) sendEnd() {
	for !in.closed {
		n, err := in.send([]byte{endOfFile})
		if n > 0 {
			in.closed, in.midLine = !in.midLine, false
		}
		in.settle(err)
	}
}

// beforeKey returns the part of data before the first key that sends a signal. If data begins with
// such a key, beforeKey returns only the key, and discards unread input if the key does. It exists
// for gVisor, where the key would do nothing until a program has read the lines before it.
func (in *input) beforeKey(data []byte) []byte {
	keys := pty.SignalKeys(in.to)
	key := keys.First(data)
	if key < 0 {
		return data
	}
	if _, known := pty.Foreground(in.to); known {
		return data // not gVisor
	}
	if key > 0 {
		return data[:key]
	}
	if keys.Discards {
		pty.DiscardInput(in.to)
	}
	return data[:1]
}

// interrupt calls the function send, which sends a signal for which terminals have keys. If the key
// for the signal discards input, interrupt first discards the input that programs have not read. It
// also discards input that has not reached the terminal: chunks that have arrived, and all input
// before the offset typed. Otherwise a signal could come in the middle of a line that a shell
// reads, and the shell would run the rest of the line.
//
// If the offset is 0, which means that it is unknown, or if the input has ended, interrupt discards
// nothing.
func (in *input) interrupt(sig syscall.Signal, typed uint64, send func() error) error {
	in.stop()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.resume()
	if pty.SignalKeys(in.to).DiscardsFor(sig) && typed > 0 && !in.closed {
		in.discards = max(in.discards, in.arrived, typed)
		in.midLine = false
		pty.DiscardInput(in.to)
	}
	return send()
}

// stop makes pending and later writes return.
func (in *input) stop() {
	in.stops.Lock()
	defer in.stops.Unlock()
	in.stops.pending++
	in.to.SetWriteDeadline(time.Unix(1, 0))
}

// resume reverts stop. Call it while mu is locked.
func (in *input) resume() {
	in.stops.Lock()
	defer in.stops.Unlock()
	in.stops.pending--
	if in.stops.pending == 0 {
		in.to.SetWriteDeadline(time.Time{})
		in.resumed.Broadcast()
	}
}

func (in *input) stopped() bool {
	in.stops.Lock()
	defer in.stops.Unlock()
	return in.stops.pending > 0
}

func (in *input) close() {
	in.closed = true
	if !in.terminal {
		in.to.Close()
	}
	in.resumed.Broadcast()
}

// end closes the input of an ended process, and unblocks a pending write.
func (in *input) end() {
	if in.to == nil {
		return
	}
	in.stop()
	in.mu.Lock()
	if !in.closed {
		in.close()
	}
	in.mu.Unlock()
}
