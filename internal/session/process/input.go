package process

import (
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxInput is the maximum number of bytes that wait for the program to read them.
const maxInput = 1 << 20

// input queues input for the program.
type input struct {
	to io.Writer

	mu      sync.Mutex
	changed sync.Cond // signalled after a change that pump or discard waits for
	typed   []byte
	writing bool // pump is writing a part of the input
	paused  bool // pump must not begin to write
	closed  bool
	rate    int64 // bytes per second; 0: no limit
	allowed float64
	at      time.Time
	written int64
	refused int64
}

func newInput(to io.Writer, rate int64) *input {
	in := &input{to: to, rate: rate, allowed: float64(rate), at: time.Now()}
	in.changed.L = &in.mu
	return in
}

// put queues all bytes or none.
func (in *input) put(b []byte) error { return in.add(b, len(b)) }

// typeHidden is like put, but for a secret. The input counts do not reveal the length of the
// secret.
func (in *input) typeHidden(b []byte) error { return in.add(b, 0) }

func (in *input) add(b []byte, counted int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errEnded
	}
	if in.rate > 0 {
		now := time.Now()
		in.allowed = min(float64(in.rate), in.allowed+now.Sub(in.at).Seconds()*float64(in.rate))
		in.at = now
		if float64(len(b)) > in.allowed {
			in.refused += int64(counted)
			return fault.Newf(fault.Exhausted, "input throttled (limit %d bytes/s): %d bytes are too many, %d are allowed now", in.rate, len(b), int64(in.allowed)).
				WithHint("try again in a moment, with less; nothing was typed")
		}
	}
	if len(in.typed)+len(b) > maxInput {
		in.refused += int64(counted)
		return fault.Newf(fault.Exhausted, "%d bytes already wait for the program to read them", len(in.typed)).WithHint("wait until it reads; nothing was typed")
	}
	in.allowed -= float64(len(b))
	in.typed = append(in.typed, b...)
	in.written += int64(counted)
	in.changed.Broadcast()
	return nil
}

// pump writes queued input to the terminal until the queue is closed.
func (in *input) pump() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		for (len(in.typed) == 0 || in.paused) && !in.closed {
			in.changed.Wait()
		}
		if in.closed {
			return
		}
		b := in.typed
		in.typed, in.writing = nil, true
		in.mu.Unlock()
		_, err := in.to.Write(b)
		in.mu.Lock()
		in.writing = false
		in.changed.Broadcast()
		if err != nil {
			in.closed = true
			return
		}
	}
}

// discard drops the queued input, and waits until pump is not writing. Until the caller calls
// resume, pump writes nothing. Input that is typed meanwhile is kept. The caller must interrupt a
// pending write before, and must not call discard again before resume.
func (in *input) discard() (resume func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.typed, in.paused = nil, true
	for in.writing {
		in.changed.Wait()
	}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.paused = false
		in.changed.Broadcast()
	}
}

// close drops the queued input and rejects further input.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.changed.Broadcast()
}

func (in *input) counts() (written, refused int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.written, in.refused
}

// rateLimiter delays callers that exceed a rate in bytes per second.
type rateLimiter struct {
	rate int64
	mu   sync.Mutex
	free time.Time // time when the next byte is allowed
}

func newRateLimiter(rate int64) rateLimiter { return rateLimiter{rate: rate} }

// wait reserves n bytes and waits until they are allowed. After a second without calls, the bytes
// of one second are allowed without a delay.
func (l *rateLimiter) wait(n int) { time.Sleep(l.reserve(n)) }

// reserve reserves n bytes. It returns how long the caller must wait for them.
func (l *rateLimiter) reserve(n int) time.Duration {
	if l.rate == 0 {
		return 0
	}
	l.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-time.Second); l.free.Before(earliest) {
		l.free = earliest
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	left := l.free.Sub(now)
	l.mu.Unlock()
	return left
}
