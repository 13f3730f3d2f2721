package secret

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// MinHidden is how many bytes a value must have to be hidden in what programs print: shorter ones are in everything.
const MinHidden = 4

// Redactor hides values in texts and streams, also when they come in pieces, in base64 (whatever stands before and after them in it, and however it is cut into
// lines), and with a terminal's line ends. A value that was changed in any other way is not found. It is safe for concurrent use.
type Redactor struct {
	patterns []pattern
	first    [256][]int // the patterns that begin with a byte
}

// pattern is one form of a value.
type pattern struct {
	text   []byte
	next   []int // how much of text is still matched where the byte after so much of it is another (Knuth, Morris and Pratt)
	base64 bool  // line ends within it say nothing
}

// NewRedactor hides these values. Spaces and line ends around a value are not part of it.
func NewRedactor(values ...Value) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	add := func(text string, coded bool) {
		if len(text) >= MinHidden && !seen[text] {
			seen[text] = true
			r.first[text[0]] = append(r.first[text[0]], len(r.patterns))
			r.patterns = append(r.patterns, pattern{[]byte(text), borders(text), coded})
		}
	}
	for _, v := range values {
		text := strings.ReplaceAll(strings.TrimSpace(v.Reveal()), "\r", "")
		if len(text) < MinHidden {
			continue
		}
		add(text, false)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for before := range 3 {
				add(within(encoding, text, before), true)
			}
		}
	}
	return r
}

// within is what is always the same in base64 of a text with so many bytes before it, modulo 3: the characters that none of its neighbours has a bit in.
func within(e *base64.Encoding, text string, before int) string {
	coded := e.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
	return coded[(8*before+5)/6 : 8*(before+len(text))/6]
}

func borders(text string) []int {
	next := make([]int, len(text)+1)
	for i, k := 1, 0; i < len(text); i++ {
		for k > 0 && text[i] != text[k] {
			k = next[k]
		}
		if text[i] == text[k] {
			k++
		}
		next[i+1] = k
	}
	return next
}

// Text hides values in a text that is whole.
func (r *Redactor) Text(s string) string {
	if r == nil || len(r.patterns) == 0 {
		return s
	}
	var b bytes.Buffer
	w := r.Writer(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

// heldPatience is how long a stream may be quiet before the first few bytes of what may become a value are passed on: somebody waits for a prompt that ends so.
const heldPatience = 20 * time.Millisecond

// Writer hides values in what is written to it. What may be the beginning of a value is held until it is known, but for a few bytes.
type Writer struct {
	r  *Redactor
	to io.Writer

	mu     sync.Mutex
	states []int  // how much of each pattern has come
	active []int  // the patterns of which something has
	breaks int    // characters of line ends that came last
	held   []byte // what has come and was not passed on
	hide   []Span // of held
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
	for _, c := range b {
		w.held = append(w.held, c)
		w.match(c)
	}
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
	held := w.held
	w.held = make([]byte, 0, len(held))
	for _, c := range held {
		w.held = append(w.held, c)
		w.match(c)
	}
}

// maxBreaks is how many characters of line ends there may be one after the other within a value, those of its own among them.
const maxBreaks = 4

// match goes on with each pattern by a byte, which is held already.
func (w *Writer) match(c byte) {
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
	kept := w.active[:0]
	for _, i := range w.active {
		p := &w.r.patterns[i]
		if c == '\n' && p.base64 {
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
		if w.states[i] == 0 {
			w.states[i] = 1
			w.active = append(w.active, i)
		}
	}
}

// found notes that a pattern ends with what is held.
func (w *Writer) found(p *pattern) {
	s := Span{From: w.back(p, len(p.text)), To: len(w.held)}
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
		if c := w.held[at]; c != '\r' && (c != '\n' || !p.base64) {
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
	w.held = slices.Delete(w.held, 0, to)
	for i := range w.hide {
		w.hide[i].From -= to
		w.hide[i].To -= to
	}
	if len(w.held) == 0 {
		w.held = nil
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

// quiet passes on the beginning of what may become a value, where it is so little that it tells nothing of one.
func (w *Writer) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.timer == nil || len(w.held) == 0 { // it has been cut while this waited
		return
	}
	for _, i := range w.active {
		if n := w.states[i]; n > len(w.r.patterns[i].text)/4 {
			return
		}
	}
	w.pass(len(w.held))
}

// Close passes on what is held, of which is known now that it is no value.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		if w.timer != nil {
			w.timer.Stop()
		}
		w.pass(len(w.held))
	}
	return w.err
}
