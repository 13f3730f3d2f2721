package rpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"sync"
	"unicode/utf8"
)

// maxChunk bounds the output that one notification carries, in bytes.
const maxChunk = 32 << 10

// stream passes on what a command prints on one of its two. A character of UTF-8 is never split: its beginning is held until the rest comes.
type stream struct {
	call *Call
	name string

	mu   sync.Mutex
	held []byte
}

// Write waits until the client has read, or has consumed enough of what it got before.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.held, b...)
	s.held = nil
	for len(text) > 0 {
		chunk := text[:min(len(text), maxChunk)]
		chunk = chunk[:len(chunk)-unfinished(chunk)]
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

// flush sends what is held: the rest of the character did not come.
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

// unfinished counts the bytes at the end that are the beginning of a character, and not all of it.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// window bounds the output that is on its way to a client, which tells what it has consumed. One without a size bounds nothing.
type window struct {
	size int64
	mu   sync.Mutex
	sent int64         // and not consumed
	more chan struct{} // something was consumed
}

// take waits until so many bytes more may be sent.
func (w *window) take(ctx context.Context, bytes int64) error {
	for !w.fits(bytes) {
		select {
		case <-w.more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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

// consumed makes room.
func (w *window) consumed(bytes int64) {
	w.mu.Lock()
	w.sent = max(0, w.sent-max(0, bytes))
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}
