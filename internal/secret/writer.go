package secret

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// holdTimeout is the maximum time that the first byte of a possible value is buffered. The byte
	// might also be the end of a line or a prompt.
	holdTimeout = 20 * time.Millisecond
	// maxShown is the maximum number of bytes of a value that can be written after holdTimeout. If
	// more bytes match, they are buffered until the match is complete or fails.
	maxShown = 1
)

// Writer redacts values in a stream. It buffers bytes that could be the beginning of a value. After
// holdTimeout it writes up to maxShown of these bytes.
type Writer struct {
	r  *Redactor
	to io.Writer

	mu     sync.Mutex
	states []int  // number of matched bytes, for each pattern.
	active []int  // indexes of patterns that have matched bytes.
	breaks int    // number of consecutive line end characters.
	held   []byte // bytes that were not written yet.
	hide   []Span // parts of held to redact.
	inside []bool // tells for each byte of held whether it belongs to a control sequence.
	seq    sequence
	timer  *time.Timer
	err    error
	closed bool
}

// Writer returns a Writer for a new stream. The caller must close the Writer. Closing it does not
// close the underlying writer.
func (r *Redactor) Writer(to io.Writer) *Writer {
	w := &Writer{r: r, to: to}
	if r != nil {
		w.states = make([]int, len(r.patterns))
	}
	return w
}

// Write writes a part of the stream. The error is from the underlying writer, possibly from writing
// earlier bytes.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.states) == 0 || w.err != nil {
		if w.err == nil && len(b) > 0 {
			_, w.err = w.to.Write(b)
		}
		return len(b), w.err
	}
	w.take(b)
	w.pass(w.open())
	if len(w.held) > 0 && w.err == nil {
		if w.timer == nil {
			w.timer = time.AfterFunc(holdTimeout, w.quiet)
		} else {
			w.timer.Reset(holdTimeout)
		}
	}
	return len(b), w.err
}

// Use replaces the Redactor. The new Redactor should have all values of the old one, and can have
// more. The buffered bytes are matched again.
func (w *Writer) Use(r *Redactor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.r, w.active, w.breaks = r, nil, 0
	w.states = make([]int, len(r.patterns))
	held, inside := w.held, w.inside
	w.held, w.inside = make([]byte, 0, len(held)), nil
	for i, c := range held {
		w.hold(c, inside[i])
	}
}

// take appends bytes to the buffered bytes and matches them.
func (w *Writer) take(b []byte) {
	for _, c := range b {
		w.hold(c, w.seq.has(c))
	}
}

// hold appends a byte to the buffered bytes and matches it. inside reports whether the byte belongs
// to a control sequence.
func (w *Writer) hold(c byte, inside bool) {
	w.held = append(w.held, c)
	w.inside = append(w.inside, inside)
	w.match(c, inside)
}

// maxBreaks is the maximum number of consecutive line end characters within a value. Line ends that
// belong to the value count too.
const maxBreaks = 4

// match advances the matches of all patterns by one byte.
func (w *Writer) match(c byte, inside bool) {
	if c == '\r' || c == '\n' {
		if w.breaks++; w.breaks > maxBreaks {
			for _, i := range w.active {
				w.states[i] = 0
			}
			w.active = nil
		}
	} else {
		w.breaks = 0
	}
	if c == '\r' {
		return
	}
	if inside && w.seq.endless() {
		w.active = slices.DeleteFunc(w.active, w.dropPlain)
	}
	kept := w.active[:0]
	for _, i := range w.active {
		p := &w.r.patterns[i]
		if !p.counts(c, inside) {
			kept = append(kept, i)
			continue
		}
		n := w.states[i]
		for n > 0 && (n == len(p.text) || p.text[n] != c) {
			n = p.next[n]
		}
		if p.text[n] == c {
			n++
		}
		w.states[i] = n
		if n == len(p.text) {
			w.found(p)
		}
		if n > 0 {
			kept = append(kept, i)
		}
	}
	w.active = kept
	for _, i := range w.r.first[c] {
		if w.states[i] == 0 && w.r.patterns[i].counts(c, inside) {
			w.states[i] = 1
			w.active = append(w.active, i)
		}
	}
}

// dropPlain resets the match of a pattern that ignores control sequences. It reports whether the
// pattern is of this kind.
func (w *Writer) dropPlain(i int) bool {
	if !w.r.patterns[i].plain {
		return false
	}
	w.states[i] = 0
	return true
}

// counts reports whether a byte is significant for the pattern.
func (p *pattern) counts(c byte, inside bool) bool {
	return c != '\r' && (c != '\n' || !p.base64) && (!inside || !p.plain)
}

// found redacts a complete match of a pattern that ends at the last buffered byte.
func (w *Writer) found(p *pattern) { w.hideLast(p, len(p.text)) }

// hideLast redacts the last n bytes of a match that ends at the last buffered byte.
func (w *Writer) hideLast(p *pattern, n int) {
	s := Span{From: w.back(p, n), To: len(w.held)}
	for n := len(w.hide) - 1; n >= 0 && w.hide[n].To > s.From; n-- { // merge overlapping spans
		if w.hide[n].From <= s.From {
			s.From, s.Written = w.hide[n].From, w.hide[n].Written
		}
		s.To = max(s.To, w.hide[n].To) // a span that was found before Use can be longer
		w.hide = w.hide[:n]
	}
	w.hide = append(w.hide, s)
}

// back returns the position in held at which the last n bytes of a match begin. If some of these
// bytes were already written, it returns 0.
func (w *Writer) back(p *pattern, n int) int {
	at := len(w.held)
	for n > 0 && at > 0 {
		at--
		if p.counts(w.held[at], w.inside[at]) {
			n--
		}
	}
	return at
}

// open returns the position of the first buffered byte that could belong to a value.
func (w *Writer) open() int {
	at := len(w.held)
	for _, i := range w.active {
		p := &w.r.patterns[i]
		n := w.states[i]
		if n == len(p.text) { // a complete match can also be the beginning of another match
			n = p.next[n]
		}
		if n > 0 {
			at = min(at, w.back(p, n))
		}
	}
	return at
}

// pass writes the buffered bytes before a position. It redacts the spans in hide.
func (w *Writer) pass(to int) {
	if to == 0 {
		return
	}
	out := w.held[:to]
	if len(w.hide) > 0 && w.hide[0].From < to {
		out = w.hidden(to)
	}
	if _, err := w.to.Write(out); w.err == nil {
		w.err = err
	}
	w.held, w.inside = slices.Delete(w.held, 0, to), slices.Delete(w.inside, 0, to)
	for i := range w.hide {
		w.hide[i].From -= to
		w.hide[i].To -= to
	}
	if len(w.held) == 0 {
		w.held, w.inside = nil, nil
	}
}

// hidden returns the buffered bytes before a position, with the values replaced by Hidden.
func (w *Writer) hidden(to int) []byte {
	var out []byte
	at := 0
	for len(w.hide) > 0 && w.hide[0].From < to {
		s := &w.hide[0]
		out = append(out, w.held[at:s.From]...)
		if !s.Written {
			out = append(out, Hidden...)
		}
		at = min(s.To, to)
		if s.To > to {
			s.From, s.Written = to, true
			break
		}
		w.hide = w.hide[1:]
	}
	return append(out, w.held[at:to]...)
}

// quiet writes the buffered beginning of a possible value, if the beginning has at most maxShown
// bytes.
func (w *Writer) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.timer == nil || len(w.held) == 0 { // Cut was called in the meantime
		return
	}
	for _, i := range w.active {
		if w.states[i] > maxShown {
			return
		}
	}
	w.pass(len(w.held))
}

// Close writes the buffered bytes. If the stream ends within a possible value, and at least
// MinHidden bytes of the value are present, Close redacts these bytes.
func (w *Writer) Close() error { return w.end(w.hideBeginning) }

// finish is like Close, but for a complete text. A complete text does not end within a value.
func (w *Writer) finish() { w.end(func() {}) }

func (w *Writer) end(last func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		if w.timer != nil {
			w.timer.Stop()
		}
		last()
		w.pass(len(w.held))
	}
	return w.err
}

// hideBeginning redacts the longest beginning of a value at the end of the stream.
func (w *Writer) hideBeginning() {
	var most *pattern
	length := MinHidden - 1
	for _, i := range w.active {
		if p, n := &w.r.patterns[i], w.states[i]; n > length && n < len(p.text) {
			most, length = p, n
		}
	}
	if most != nil {
		w.hideLast(most, length)
	}
}
