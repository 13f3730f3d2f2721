package daemon

import (
	"io"
	"sync"
)

// relay passes on to somebody who may be slow what is written to it, which never waits for them: who is to wait does so between begin and end.
type relay struct {
	to io.Writer

	mu      sync.Mutex
	idle    sync.Cond // of busy
	busy    bool      // somebody passes on what waits, and is about to look for more
	waiting []byte
	spare   []byte
	err     error // of to, which is given no more after that
}

func newRelay(to io.Writer) *relay {
	r := &relay{to: to}
	r.idle.L = &r.mu
	return r
}

// begin waits until everything has been passed on. What is written until end is passed on there.
func (r *relay) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.idle.Wait()
	}
	r.busy = true
}

// Write keeps a piece. Outside of begin and end it is passed on by itself.
func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	r.waiting = append(r.waiting, b...)
	if !r.busy {
		r.busy = true
		go r.end()
	}
	return len(b), nil
}

// end passes on what waits, and gives the error of whom it is for.
func (r *relay) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 && r.err == nil {
		b := r.waiting
		r.waiting, r.spare = r.spare[:0], nil
		r.mu.Unlock()
		_, err := r.to.Write(b)
		r.mu.Lock()
		r.spare, r.err = b, err
	}
	r.busy = false
	r.idle.Broadcast()
	return r.err
}
