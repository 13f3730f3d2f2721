package secret

import (
	"bytes"
	"io"
	"slices"
)

// Cut is the state of a Writer at one point of a stream. Another Writer can continue from this
// state (see [Writer.Cut]). A Cut contains parts of secret values.
type Cut struct {
	Passed []byte   `json:"passed,omitempty"` // beginning of a possible value, already written
	Held   []byte   `json:"held,omitempty"`
	Hide   []Span   `json:"hide,omitempty"`   // parts of Held to redact
	Inside []bool   `json:"inside,omitempty"` // tells for each byte of Held whether it belongs to a control sequence
	Seq    sequence `json:"seq,omitzero"`
}

// Span is a part of the buffered bytes that must be redacted.
type Span struct {
	From    int  `json:"from"`
	To      int  `json:"to"`
	Written bool `json:"told,omitempty"` // Hidden was already written for the beginning of this span
}

// Cut returns the state of the stream and stops the timer that writes buffered bytes. The next call
// of Write starts the timer again. If that call has no bytes, it writes nothing.
func (w *Writer) Cut() Cut {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	c := Cut{Held: bytes.Clone(w.held), Hide: slices.Clone(w.hide), Inside: slices.Clone(w.inside), Seq: w.seq}
	// Among the bytes already written, only the longest match in progress matters, because all
	// shorter matches are suffixes of the longest match.
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

// Continue returns a Writer that continues a stream from a cut. The Redactor must have the same
// values as the Redactor of the first Writer.
func (r *Redactor) Continue(to io.Writer, cut Cut) *Writer {
	w := r.Writer(to)
	if len(w.states) == 0 { // there are no values to redact any more
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
