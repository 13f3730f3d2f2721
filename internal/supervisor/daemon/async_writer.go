package daemon

import (
	"io"
	"sync"
)

// asyncWriter queues bytes for a writer that can be slow. Write never waits for that writer. To
// wait, a caller calls begin before it writes and flush afterwards.
type asyncWriter struct {
	to io.Writer

	mu      sync.Mutex
	idle    sync.Cond // signalled when busy becomes false
	busy    bool      // a goroutine writes the queued bytes, or the caller of begin will do it
	waiting []byte
	spare   []byte
	err     error // error from the writer; after an error, nothing more is written
}

func newAsyncWriter(to io.Writer) *asyncWriter {
	w := &asyncWriter{to: to}
	w.idle.L = &w.mu
	return w
}

// begin waits until all queued bytes have been written. Bytes that are queued after begin are not
// written until flush.
func (w *asyncWriter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy {
		w.idle.Wait()
	}
	w.busy = true
}

// Write queues b. If the caller has not called begin, a goroutine writes the queued bytes.
func (w *asyncWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.waiting = append(w.waiting, b...)
	if !w.busy {
		w.busy = true
		go w.flush()
	}
	return len(b), nil
}

// flush writes all queued bytes. It returns the error from the underlying writer.
func (w *asyncWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.err == nil {
		b := w.waiting
		w.waiting, w.spare = w.spare[:0], nil
		w.mu.Unlock()
		_, err := w.to.Write(b)
		w.mu.Lock()
		w.spare, w.err = b, err
	}
	w.busy = false
	w.idle.Broadcast()
	return w.err
}
