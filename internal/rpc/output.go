package rpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"sync"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/runes"
)

// maxChunk is the maximum amount of output in one notification, in bytes.
const maxChunk = 32 << 10

// stream sends the output that a command writes to stdout or stderr. It never splits a UTF-8
// character. If a character is incomplete, stream buffers it.
type stream struct {
	call *Call
	name string

	mu   sync.Mutex
	held []byte
}

// Write sends output. It blocks until the client has read the output. If the unacknowledged output
// exceeds the window, it also waits for acknowledgements.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.held, b...)
	s.held = nil
	for len(text) > 0 {
		chunk := text[:min(len(text), maxChunk)]
		chunk = chunk[:len(chunk)-runes.Partial(chunk)]
		if len(chunk) == 0 {
			break
		}
		if err := s.send(chunk); err != nil {
			return 0, err
		}
		text = text[len(chunk):]
	}
	s.held = append(s.held, text...)
	return len(b), nil
}

// flush sends a buffered incomplete character.
func (s *stream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		s.send(s.held)
	}
	s.held = nil
}

func (s *stream) send(chunk []byte) error {
	if err := s.call.window.take(s.call.ctx, int64(len(chunk))); err != nil {
		return err
	}
	data, encoding := string(chunk), "utf-8"
	if !utf8.Valid(chunk) {
		data, encoding = base64.StdEncoding.EncodeToString(chunk), "base64"
	}
	return s.call.notify("output", struct {
		ID       json.RawMessage `json:"id"`
		Stream   string          `json:"stream"`
		Data     string          `json:"data"`
		Encoding string          `json:"encoding"`
	}{s.call.id, s.name, data, encoding})
}

// window limits the output that the client has not acknowledged. If size is 0, there is no limit.
type window struct {
	size int64
	mu   sync.Mutex
	sent int64         // number of bytes that were sent but not acknowledged
	more chan struct{} // signals an acknowledgement
}

// take blocks until the window has room for the given number of bytes.
func (w *window) take(ctx context.Context, bytes int64) error {
	for !w.fits(bytes) {
		select {
		case <-w.more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.signal() // the call's other stream can wait too
	return nil
}

func (w *window) fits(bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size > 0 && w.sent > 0 && w.sent+bytes > w.size {
		return false
	}
	w.sent += bytes
	return true
}

// open removes the limit.
func (w *window) open() {
	w.mu.Lock()
	w.size = 0
	w.mu.Unlock()
	w.signal()
}

// consumed records an acknowledgement.
func (w *window) consumed(bytes int64) {
	w.mu.Lock()
	w.sent = max(0, w.sent-max(0, bytes))
	w.mu.Unlock()
	w.signal()
}

func (w *window) signal() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}
