// Package transcript keeps what a program wrote as a log with absolute offsets, of which the last part is there to be read.
//
// A reader has a cursor: the offset of what it has not read. Whoever comes back with it loses nothing and sees nothing twice, or is told how much is gone.
package transcript

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/ring"
)

// Log is one. It is for one writer and any number of readers at once.
type Log struct {
	mu      sync.Mutex
	ring    ring.Ring
	ended   bool
	changed chan struct{} // closed and replaced when there is something new
	last    time.Time     // of the last write
}

// New makes an empty log that keeps the last limit bytes.
func New(limit int) *Log { return &Log{ring: ring.New(firstRing, limit), changed: make(chan struct{})} }

// Restore makes a log that keeps the last limit bytes of one that was kept elsewhere: kept, which begins at offset from.
func Restore(limit int, from int64, kept []byte) *Log {
	l := &Log{ring: ring.At(firstRing, limit, uint64(max(from, 0))), changed: make(chan struct{}), last: time.Now()}
	l.ring.Write(kept)
	return l
}

const firstRing = 4 << 10

// Write appends. It never waits and never fails.
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

// start and end are the offsets of the first byte that is kept, and of the next one.
func (l *Log) start() int64 { return int64(l.ring.Start()) }
func (l *Log) end() int64   { return int64(l.ring.End()) }

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// End says that nothing more will be written. Idempotent.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.wake()
	}
}

// Piece is what a reader gets.
type Piece struct {
	Data    []byte
	From    int64 // the offset of Data: the cursor, or what is kept first where that is later
	Next    int64 // the cursor to go on with
	Dropped int64 // bytes between the cursor and From that are not kept any more
	More    bool  // there is more already
	Ended   bool  // there is nothing more, and never will be
}

// Read gives what is at a cursor and after it, chars characters at most, of which it splits none: where the last one is not whole yet it is left for later. A
// cursor beyond the end is taken for the end.
func (l *Log) Read(cursor int64, chars int) Piece {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(cursor, l.start(), 0), l.end())
	data := l.ring.Bytes(uint64(from), uint64(from+int64(chars)*utf8.UTFMax))
	return pieceOf(data, cursor, from, l.end(), chars, l.ended)
}

// ReadRaw gives what is at a cursor and after it, at most so many bytes, whatever they are.
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

// pieceOf is what a reader gets of the bytes at from, which is its cursor or what is kept first.
func pieceOf(data []byte, cursor, from, end int64, chars int, ended bool) Piece {
	p := Piece{From: from, Dropped: max(0, from-max(cursor, 0))}
	if cursor > end {
		p.Dropped = 0
	}
	if p.Dropped > 0 {
		for len(data) > 0 && from > 0 && !utf8.RuneStart(data[0]) && p.From-from < utf8.UTFMax { // of a character that is gone
			data, p.From, p.Dropped = data[1:], p.From+1, p.Dropped+1
		}
	}
	p.Data = first(data, chars, ended && p.From+int64(len(data)) == end)
	p.Next = p.From + int64(len(p.Data))
	p.More = len(p.Data) < len(data) && !unfinished(data[len(p.Data):]) || p.From+int64(len(data)) < end
	p.Ended = ended && p.Next == end
	return p
}

// first gives the first characters of some bytes. One that is not whole is not among them, unless the bytes are at the end of all.
func first(data []byte, chars int, ended bool) []byte {
	if chars >= len(data) { // all of it, as far as it is whole
		for n := len(data) - 1; !ended && n >= 0 && n > len(data)-utf8.UTFMax; n-- {
			if utf8.RuneStart(data[n]) {
				if unfinished(data[n:]) {
					return data[:n]
				}
				break
			}
		}
		return data
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

// unfinished tells whether bytes are the beginning of one character.
func unfinished(b []byte) bool { return !utf8.FullRune(b) }

// Bytes gives what is kept between two offsets.
func (l *Log) Bytes(from, to int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring.Bytes(uint64(max(from, 0)), uint64(max(to, 0)))
}

// Kept gives all that is kept, and its offset.
func (l *Log) Kept() (from int64, kept []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start(), l.ring.Bytes(l.ring.Start(), l.ring.End())
}

// Len is the offset of the end: how much was written.
func (l *Log) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// Wait waits until something is after the cursor, or never will be. It is an error only when ctx ends first.
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

// WaitIdle waits until nothing was written for a while, which begins with the call at the earliest, or so much is after the cursor, or never will be more. It is an
// error only when ctx ends first.
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
