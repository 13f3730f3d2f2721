package secret

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// MinHidden is how many bytes a value must have to be hidden in what programs print: shorter ones are in everything.
const MinHidden = 4

// Redactor hides values in texts and streams, also when they come in pieces, in base64 (whatever stands before and after them in it, and however it is cut into
// lines), with a terminal's line ends, and with control sequences within them. A value that was changed in any other way is not found. It is safe for concurrent use.
type Redactor struct {
	patterns []pattern
	first    [256][]int // the patterns that begin with a byte
}

// pattern is one form of a value.
type pattern struct {
	text   []byte
	next   []int // how much of text is still matched where the byte after so much of it is another (Knuth, Morris and Pratt)
	base64 bool  // line ends within it do not count
	plain  bool  // control sequences within it do not count
}

// NewRedactor hides these values. Spaces and line ends around a value are not part of it.
func NewRedactor(values ...Value) *Redactor {
	r := &Redactor{}
	seen := map[string]bool{}
	add := func(text string, coded bool) {
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
	w.finish()
	return b.String()
}
