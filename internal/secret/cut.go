package secret

import (
	"bytes"
	"io"
	"slices"
)

// Cut is where a stream was cut, to go on in another Writer: see [Writer.Cut]. It holds parts of values.
type Cut struct {
	Passed []byte   `json:"passed,omitempty"` // on, of what may become a value
	Held   []byte   `json:"held,omitempty"`
	Hide   []Span   `json:"hide,omitempty"`   // of Held
	Inside []bool   `json:"inside,omitempty"` // of Held: which bytes are of control sequences
	Seq    sequence `json:"seq,omitzero"`
}

// Span is a part of what is held that is hidden.
type Span struct {
	From int  `json:"from"`
	To   int  `json:"to"`
	Told bool `json:"told,omitempty"` // it goes on from what was passed on as hidden
}

// Cut gives where the stream is, and passes nothing on by itself any more. It goes on with the next Write, which may be of nothing: that alone writes nothing.
func (w *Writer) Cut() Cut {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	c := Cut{Held: bytes.Clone(w.held), Hide: slices.Clone(w.hide), Inside: slices.Clone(w.inside), Seq: w.seq}
	// What matters of what was passed on is the beginning of the pattern that has come the farthest: those of all others end it.
	for _, i := range w.active {
		p := &w.r.patterns[i]
		held := 0
		for at, b := range w.held {
			if p.counts(b, w.inside[at]) {
				held++
			}
		}
		if passed := w.states[i] - held; passed > len(c.Passed) {
			c.Passed = bytes.Clone(p.text[:passed])
		}
	}
	return c
}

// Continue goes on with a stream that was cut, with the same values.
func (r *Redactor) Continue(to io.Writer, cut Cut) *Writer {
	w := r.Writer(to)
	if len(w.states) == 0 { // there is nothing to hide any more
		w.Write(cut.Held)
		return w
	}
	for _, b := range cut.Passed {
		w.hold(b, false)
	}
	for at, b := range cut.Held {
		w.hold(b, at < len(cut.Inside) && cut.Inside[at])
	}
	w.held, w.inside, w.hide, w.seq = w.held[len(cut.Passed):], w.inside[len(cut.Passed):], nil, cut.Seq
	for _, s := range cut.Hide {
		if s.From >= 0 && s.From <= s.To && s.To <= len(w.held) {
			w.hide = append(w.hide, s)
		}
	}
	return w
}
