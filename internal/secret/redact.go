package secret

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// MinHidden is the minimum length of the values that are redacted, in bytes. Shorter values would
// match too often.
const MinHidden = 4

// Redactor redacts values in texts and streams. It also finds values that are split over several
// writes. It finds values that contain line ends or terminal control sequences. It finds base64
// encodings at any offset and with any line length. It does not find other encodings. A Redactor is
// safe for concurrent use.
type Redactor struct {
	patterns []pattern
	first    [256][]int // indexes of patterns, by their first byte
}

// pattern is one encoding of a value that is searched for.
type pattern struct {
	text   []byte
	next   []int // failure function of the Knuth-Morris-Pratt algorithm
	base64 bool  // the search ignores line ends
	plain  bool  // the search ignores control sequences
}

// NewRedactor returns a Redactor for the values. It ignores white space around the values.
func NewRedactor(values ...Value) *Redactor {
	return newRedactor(values, func(text string) string { return text })
}

// NewNameRedactor returns a Redactor for texts in lower case, such as the names of hosts. It finds
// the lower-case forms of the values and of their base64 encodings.
func NewNameRedactor(values ...Value) *Redactor { return newRedactor(values, strings.ToLower) }

// newRedactor returns a Redactor that finds a form of the values.
func newRedactor(values []Value, form func(string) string) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	add := func(text string, coded bool) {
		text = form(text)
		if len(text) < MinHidden || seen[text] {
			return
		}
		seen[text] = true
		next := borders(text)
		for _, plain := range []bool{false, true} {
			r.first[text[0]] = append(r.first[text[0]], len(r.patterns))
			r.patterns = append(r.patterns, pattern{[]byte(text), next, coded, plain})
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

// within returns the part of the base64 encoding of text that does not depend on neighboring bytes.
// The parameter before is the number of bytes (modulo 3) that precede text.
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

// Text redacts values in a complete text.
func (r *Redactor) Text(s string) string {
	if r == nil || len(r.patterns) == 0 {
		return s
	}
	var b bytes.Buffer
	w := r.Writer(&b)
	w.Write([]byte(s))
	w.finish()
	return b.String()
}
