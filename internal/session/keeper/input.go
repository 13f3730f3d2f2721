package keeper

import (
	"io"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxInput is how many bytes a program need not have read.
const maxInput = 1 << 20

// input is what is typed, on its way to the program.
type input struct {
	to io.Writer

	mu      sync.Mutex
	some    sync.Cond
	typed   []byte
	closed  bool
	rate    int64 // bytes a second, 0: any number
	allowed float64
	at      time.Time
	written int64
	refused int64
}

func newInput(to io.Writer, rate int64) *input {
	in := &input{to: to, rate: rate, allowed: float64(rate), at: time.Now()}
	in.some.L = &in.mu
	return in
}

// put takes what was typed, all of it or nothing.
func (in *input) put(b []byte) error { return in.add(b, len(b)) }

// putSecret is put of what nobody is told the length of.
func (in *input) putSecret(b []byte) error { return in.add(b, 0) }

func (in *input) add(b []byte, told int) error {
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
			in.refused += int64(told)
			return fault.Newf(fault.Exhausted, "input throttled (limit %d bytes/s): %d bytes now, and %d can be taken", in.rate, len(b), int64(in.allowed)).
				WithHint("try again in a moment, with less; nothing of it was typed")
		}
	}
	if len(in.typed)+len(b) > maxInput {
		in.refused += int64(told)
		return fault.Newf(fault.Exhausted, "%d bytes wait for the program to read them already", len(in.typed)).WithHint("wait until it reads; nothing of it was typed")
	}
	in.allowed -= float64(len(b))
	in.typed = append(in.typed, b...)
	in.written += int64(told)
	in.some.Signal()
	return nil
}

// pump types until it is closed.
func (in *input) pump() {
	for {
		in.mu.Lock()
		for len(in.typed) == 0 && !in.closed {
			in.some.Wait()
		}
		b := in.typed
		in.typed = nil
		closed := in.closed
		in.mu.Unlock()
		if closed {
			return
		}
		if _, err := in.to.Write(b); err != nil {
			in.close()
			return
		}
	}
}

// close has nothing more be typed.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.some.Signal()
}

func (in *input) counts() (written, refused int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.written, in.refused
}

// bucket has who goes too fast wait.
type bucket struct {
	rate int64
	mu   sync.Mutex
	free time.Time // when the next byte may come
}

func newBucket(rate int64) bucket { return bucket{rate: rate} }

// wait takes n bytes, and waits until they may come. What came in a quiet second may come at once.
func (b *bucket) wait(n int) { time.Sleep(b.take(n)) }

// take takes n bytes, and gives how long they have to wait.
func (b *bucket) take(n int) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-time.Second); b.free.Before(earliest) {
		b.free = earliest
	}
	b.free = b.free.Add(time.Duration(float64(n) / float64(b.rate) * float64(time.Second)))
	left := b.free.Sub(now)
	b.mu.Unlock()
	return left
}
