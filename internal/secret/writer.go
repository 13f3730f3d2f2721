package secret

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// heldPatience is how long a stream may be quiet before the first byte of what may become a value is passed on: it may end a line or a prompt.
	heldPatience = 20 * time.Millisecond
	// maxShown is how many bytes of a value can be shown that way. More of it is held until the value is whole, or is known to be none.
	maxShown = 1
)

// Writer hides values in what is written to it. What may be the beginning of a value is held until that is decided, but for maxShown bytes.
type Writer struct {
	r  *Redactor
	to io.Writer

	mu     sync.Mutex
	states []int  // how much of each pattern has come
	active []int  // the patterns of which something has
	breaks int    // characters of line ends that came last
	held   []byte // what has come and was not passed on
	hide   []Span // of held
	inside []bool // of held: which bytes are of control sequences
	seq    sequence
	timer  *time.Timer
	err    error
	closed bool
}

// Writer begins a stream. It has to be closed, which does not close to.
func (r *Redactor) Writer(to io.Writer) *Writer {
	w := &Writer{r: r, to: to}
	if r != nil {
		w.states = make([]int, len(r.patterns))
	}
	return w
}

// Write takes a piece of the stream. The error is that of the writer below, which may be of a piece before.
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
			w.timer = time.AfterFunc(heldPatience, w.quiet)
		} else {
			w.timer.Reset(heldPatience)
		}
	}
	return len(b), w.err
}

// Use hides the values of another Redactor from now on, which should be the same values and more: what is held is looked through again.
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

// take holds bytes and looks for values in them.
func (w *Writer) take(b []byte) {
	for _, c := range b {
		w.hold(c, w.seq.has(c))
	}
}

// hold holds a byte, which may be of a control sequence.
func (w *Writer) hold(c byte, inside bool) {
	w.held = append(w.held, c)
	w.inside = append(w.inside, inside)
	w.match(c, inside)
}

// maxBreaks is how many characters of line ends there may be one after the other within a value, those of its own among them.
const maxBreaks = 4

// match goes on with each pattern by a byte, which is held already.
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

// dropPlain forgets what has come of a pattern in which control sequences do not count.
func (w *Writer) dropPlain(i int) bool {
	if !w.r.patterns[i].plain {
		return false
	}
	w.states[i] = 0
	return true
}

// counts tells whether a byte, which may be of a control sequence, matters within a pattern.
func (p *pattern) counts(c byte, inside bool) bool {
	return c != '\r' && (c != '\n' || !p.base64) && (!inside || !p.plain)
}

// found notes that a pattern ends with what is held.
func (w *Writer) found(p *pattern) { w.hideLast(p, len(p.text)) }

// hideLast hides the last n bytes of a pattern, with which what is held ends.
func (w *Writer) hideLast(p *pattern, n int) {
	s := Span{From: w.back(p, n), To: len(w.held)}
	for n := len(w.hide) - 1; n >= 0 && w.hide[n].To > s.From; n-- { // both are hidden as one
		if w.hide[n].From <= s.From {
			s.From, s.Told = w.hide[n].From, w.hide[n].Told
		}
		s.To = max(s.To, w.hide[n].To) // it was found before: see Use
		w.hide = w.hide[:n]
	}
	w.hide = append(w.hide, s)
}

// back is where the last n bytes of a pattern begin in what is held: at its beginning where some were passed on.
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

// open is where the first byte is of what may become a value.
func (w *Writer) open() int {
	at := len(w.held)
	for _, i := range w.active {
		p := &w.r.patterns[i]
		n := w.states[i]
		if n == len(p.text) { // it is one already, but what it ends with may begin the next
			n = p.next[n]
		}
		if n > 0 {
			at = min(at, w.back(p, n))
		}
	}
	return at
}

// pass passes on what is held up to a place, but for what is hidden.
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

// hidden is what is held up to a place with the values in it hidden.
func (w *Writer) hidden(to int) []byte {
	var out []byte
	at := 0
	for len(w.hide) > 0 && w.hide[0].From < to {
		s := &w.hide[0]
		out = append(out, w.held[at:s.From]...)
		if !s.Told {
			out = append(out, Hidden...)
		}
		at = min(s.To, to)
		if s.To > to {
			s.From, s.Told = to, true
			break
		}
		w.hide = w.hide[1:]
	}
	return append(out, w.held[at:to]...)
}

// quiet passes on the beginning of what may become a value, if it is no more than maxShown bytes.
func (w *Writer) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.timer == nil || len(w.held) == 0 { // it has been cut while this waited
		return
	}
	for _, i := range w.active {
		if w.states[i] > maxShown {
			return
		}
	}
	w.pass(len(w.held))
}

// Close passes on what is held. A program can end, or be ended, while it prints a value: the beginning of one is hidden if it has MinHidden bytes.
func (w *Writer) Close() error { return w.end(w.hideBeginning) }

// finish is Close for a text that is whole: it ends with no value.
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

// hideBeginning hides the longest beginning of a value that the stream ends with.
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
