package program

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/runes"
)

// Log keeps the last part of a program's output in memory, with absolute offsets. It supports one
// writer and any number of concurrent readers. Each reader has a cursor, which is the offset of the
// first unread byte. So a reader gets each byte once, and sees how many bytes it missed.
type Log struct {
	mu      sync.Mutex
	ring    ring
	ended   bool
	changed chan struct{} // closed and replaced by each change.
	last    time.Time     // time of the last write.
}

// NewLog returns an empty log that keeps only its last bytes, at most limit of them.
func NewLog(limit int) *Log {
	return &Log{ring: newRing(firstRing, limit), changed: make(chan struct{})}
}

// RestoreLog returns a log that contains the bytes kept by another log. from is the offset of the
// first of them.
func RestoreLog(limit int, from int64, kept []byte) *Log {
	l := &Log{ring: ringAt(firstRing, limit, uint64(max(from, 0))), changed: make(chan struct{}), last: time.Now()}
	l.ring.Write(kept)
	return l
}

const firstRing = 4 << 10

// Write appends b. It never blocks and never fails.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	l.ring.Write(b)
	l.last = time.Now()
	l.wake()
	return len(b), nil
}

// start returns the offset of the first kept byte. end returns the offset of the next byte.
func (l *Log) start() int64 { return int64(l.ring.Start()) }
func (l *Log) end() int64   { return int64(l.ring.End()) }

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// End marks the log as complete. It is idempotent.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.wake()
	}
}

// Piece is the result of a read.
type Piece struct {
	Data    []byte
	From    int64 // offset of Data: the cursor, or a later offset if bytes were dropped.
	Next    int64 // the cursor for the next read.
	Dropped int64 // number of bytes between the cursor and From.
	More    bool  // more data is available.
	Ended   bool  // the log is complete, and Data is its end.
}

// Read returns at most the given number of characters, starting at cursor. It does not split
// characters: it returns an incomplete character only in a later read. A cursor after the end
// counts as the end.
func (l *Log) Read(cursor int64, chars int) Piece {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(cursor, l.start(), 0), l.end())
	data := l.ring.Bytes(uint64(from), uint64(from+int64(chars)*utf8.UTFMax))
	return pieceOf(data, cursor, from, l.end(), chars, l.ended)
}

// ReadRaw returns at most limit bytes, starting at cursor. It can split characters.
func (l *Log) ReadRaw(cursor int64, limit int) Piece {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(cursor, l.start(), 0), l.end())
	p := Piece{Data: l.ring.Bytes(uint64(from), uint64(from+int64(limit))), From: from}
	if cursor <= l.end() {
		p.Dropped = from - max(cursor, 0)
	}
	p.Next = from + int64(len(p.Data))
	p.More, p.Ended = p.Next < l.end(), l.ended && p.Next == l.end()
	return p
}

// pieceOf builds a Piece from bytes of a log. The parameter from is the offset of the first byte.
func pieceOf(data []byte, cursor, from, end int64, chars int, ended bool) Piece {
	p := Piece{From: from, Dropped: max(0, from-max(cursor, 0))}
	if cursor > end {
		p.Dropped = 0
	}
	if p.Dropped > 0 {
		skip := runes.Rest(data)
		data, p.From, p.Dropped = data[skip:], p.From+int64(skip), p.Dropped+int64(skip)
	}
	p.Data = first(data, chars, ended && p.From+int64(len(data)) == end)
	p.Next = p.From + int64(len(p.Data))
	p.More = len(p.Data) < len(data) && !unfinished(data[len(p.Data):]) || p.From+int64(len(data)) < end
	p.Ended = ended && p.Next == end
	return p
}

// first returns the first characters of data, at most chars. It omits an incomplete character at
// the end, unless the log has ended there.
func first(data []byte, chars int, ended bool) []byte {
	if chars >= len(data) { // return everything, except an incomplete character
		if ended {
			return data
		}
		return runes.Head(data)
	}
	n := 0
	for ; chars > 0 && n < len(data); chars-- {
		if data[n] < utf8.RuneSelf {
			n++
			continue
		}
		if !ended && unfinished(data[n:]) {
			break
		}
		_, size := utf8.DecodeRune(data[n:])
		n += size
	}
	return data[:n]
}

// unfinished reports whether b starts with an incomplete character.
func unfinished(b []byte) bool { return !utf8.FullRune(b) }

// Bytes returns the kept bytes between two offsets.
func (l *Log) Bytes(from, to int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring.Bytes(uint64(max(from, 0)), uint64(max(to, 0)))
}

// Retained returns all kept bytes, and the offset of the first of them.
func (l *Log) Retained() (from int64, kept []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start(), l.ring.Bytes(l.ring.Start(), l.ring.End())
}

// Len returns the offset of the end of the log, which is the number of bytes that were written.
func (l *Log) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// Changed returns a channel that is closed by the next write or by the end. Call it before Len, so
// that no change is missed.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Wait waits until there are bytes after the cursor or the log is complete. It returns an error
// only if ctx is cancelled.
func (l *Log) Wait(ctx context.Context, cursor int64) error {
	for {
		l.mu.Lock()
		ready, changed := l.end() > cursor || l.ended, l.changed
		l.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitIdle waits until no bytes have been written for a time, which starts at the call. It also
// returns if enough bytes are available after the cursor, or if the log is complete. The parameter
// much is the number of bytes that are enough. It returns an error only if ctx is cancelled.
func (l *Log) WaitIdle(ctx context.Context, cursor int64, idle time.Duration, much int) error {
	called := time.Now()
	for {
		l.mu.Lock()
		since, changed := called, l.changed
		if l.last.After(since) {
			since = l.last
		}
		done := l.ended || l.end()-cursor >= int64(much)
		l.mu.Unlock()
		left := idle - time.Since(since)
		if done || left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}
