package process

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/pyro-mcp/pyro/internal/session"
)

// Limits of the search for echoes, in bytes.
const (
	maxTyped     = 64 << 10 // Typed text with echoes.
	maxEchoDelay = 4 << 20  // Output between the typing of a text and its echo.
	echoContext  = 4 << 10  // Output before the first text, to see the prompt of its program.
	maxEchoSteps = 32 << 20 // Comparisons in one search.
	minPartial   = 4        // End of the output that counts as the beginning of an echo.
)

// typedText is text that a terminal or a program can echo.
type typedText struct {
	at   int64 // length of the output when the text was typed; the echo follows
	text []byte
}

// typedLine is a line of typed text. Texts without a line end form one line.
type typedLine struct {
	typedText
	ended bool // the line was ended by Enter, or by a control character
	plain bool // has no control characters, so that the echo is the text
}

// addTyped adds a text and drops the oldest ones.
func addTyped(all []typedText, at int64, text []byte) []typedText {
	all = append(all, typedText{at, bytes.Clone(text[:min(len(text), maxTyped)])})
	for size := 0; ; size = 0 {
		for _, t := range all {
			size += len(t.text)
		}
		if size <= maxTyped && at-all[0].at <= maxEchoDelay {
			return all
		}
		all = all[1:]
	}
}

// linesOf splits typed texts into lines.
func linesOf(all []typedText) (lines []typedLine) {
	next := typedLine{plain: true}
	for _, t := range all {
		for _, c := range t.text {
			if len(next.text) == 0 {
				next.at = t.at
			}
			switch {
			case bytes.IndexByte([]byte("\r\n\x03\x04\x1a\x1c"), c) >= 0: // Enter, Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-\
				next.ended = true
				lines = append(lines, next)
				next = typedLine{plain: true}
				continue
			case c < ' ' && c != '\t' || c == 0x7f:
				next.plain = false
			}
			next.text = append(next.text, c)
		}
	}
	if len(next.text) > 0 {
		lines = append(lines, next)
	}
	return lines
}

// edit is a part of the output that a line editor printed, from its prompt to the end of the line.
// Line editors enable bracketed paste during an edit. Full-screen programs enable it too, but on
// the alternate screen.
type edit struct {
	from, to int
	ended    bool
}

// editsIn finds the edits in a part of the output, which can begin within one.
func editsIn(out []byte) (all []edit) {
	open, first, alternate := edit{}, true, false
	reading := false
	for at := 0; ; {
		n := bytes.Index(out[at:], []byte("\x1b[?"))
		if n < 0 {
			break
		}
		began := at + n
		at = began + 3
		digits := at
		for at < len(out) && out[at] >= '0' && out[at] <= '9' {
			at++
		}
		if at == len(out) {
			break
		}
		on := out[at] == 'h'
		if !on && out[at] != 'l' {
			continue
		}
		switch string(out[digits:at]) {
		case "47", "1047", "1049":
			alternate, reading = on, false
		case "2004":
			switch {
			case alternate:
			case on && !reading:
				open, reading = edit{from: began}, true
			case !on && (reading || first):
				open.to, open.ended, reading = at+1, true, false
				if at+1 < len(out) && out[at+1] == '\r' { // bash prints it too
					open.to++
				}
				all = append(all, open)
			}
			first = false
		}
	}
	if reading {
		open.to = len(out)
		all = append(all, open)
	}
	return all
}

// echoFinder searches output for the echoes of typed lines.
type echoFinder struct {
	out   []byte
	base  int64 // offset of out
	steps int   // that are left
	found []session.Range
}

// findEchoes returns the parts of the output that echo typed texts, in order. out begins at the
// offset base. The end of out counts as an echo if it can be the beginning of one. Texts that were
// typed after the end of out are ignored.
//
// A terminal echoes a line when it is typed. A line editor prints the line itself after its prompt,
// and can redraw it at any time.
func findEchoes(out []byte, base int64, all []typedText) []session.Range {
	f := &echoFinder{out: out, base: base, steps: maxEchoSteps}
	end := base + int64(len(out))
	late, _ := slices.BinarySearchFunc(all, end+1, func(t typedText, end int64) int { return cmp.Compare(t.at, end) })
	all = all[:late]
	lines, edits := linesOf(all), editsIn(out)
	at, next := 0, 0 // the echoes of the following lines begin there; the edit that can contain the next line
	pending := lines // lines that no edit contains yet
	for i, l := range lines {
		typed := f.typed(l)
		for next < len(edits) && edits[next].ended && edits[next].to <= typed {
			next++
		}
		at = max(at, typed)
		limit := len(out)
		if next < len(edits) {
			e := edits[next]
			if typed >= e.from {
				if e.ended {
					pending = lines[i+1:]
				}
				at, next = max(at, e.to), next+1
				continue
			}
			limit = e.from
		}
		if l.plain && at < limit {
			if from, to := f.first(l, at, limit); to > from {
				f.add(from, to)
				at = to
			}
		}
		if l.plain && next < len(edits) && edits[next].ended {
			if _, to := f.last(l, edits[next].from, edits[next].to); to > 0 { // typed before the editor read it
				at, next, pending = edits[next].to, next+1, lines[i+1:]
			}
		}
	}
	for _, e := range edits {
		if e.ended {
			f.edited(e, lines)
		} else {
			f.editing(e, pending)
		}
	}
	slices.SortFunc(f.found, func(a, b session.Range) int { return cmp.Compare(a.From, b.From) })
	return f.found
}

// typed returns the place in the output where a line was typed.
func (f *echoFinder) typed(l typedLine) int { return max(0, int(l.at-f.base)) }

func (f *echoFinder) add(from, to int) {
	f.found = append(f.found, session.Range{From: f.base + int64(from), To: f.base + int64(to)})
}

// edited adds an edit that has ended. The echo begins with the first text that was typed during the
// edit. If all text was typed earlier, the echo includes the prompt.
func (f *echoFinder) edited(e edit, lines []typedLine) {
	if len(lines) == 0 || f.typed(lines[0]) >= e.to {
		return
	}
	from := e.from
	own, _ := slices.BinarySearchFunc(lines, from, func(l typedLine, from int) int { return cmp.Compare(f.typed(l), from) })
	if own < len(lines) && f.typed(lines[own]) < e.to {
		from = f.typed(lines[own])
	}
	f.add(from, e.to)
}

// editing adds the echo in an edit that has not ended. The parameter lines has the lines that it
// can contain. If it does not find a line that was entered, the editor has not printed the whole
// line yet.
func (f *echoFinder) editing(e edit, lines []typedLine) {
	from, own, entered := e.from, false, false
	var line typedLine
	for _, l := range lines {
		if !own && f.typed(l) >= e.from {
			from, own = f.typed(l), true
		}
		entered = entered || own && l.ended
		if len(l.text) > 0 {
			line = l
		}
	}
	if len(line.text) > 0 && line.plain {
		line.ended = false
		if _, to := f.last(line, from, e.to); to > 0 {
			f.add(from, to)
			return
		}
	}
	if entered {
		f.add(from, e.to)
	}
}

// first finds the first echo of a line in a part of the output. Text without a line end is only
// searched at the beginning, because it can be a single character.
func (f *echoFinder) first(l typedLine, from, limit int) (begin, end int) {
	if len(l.text) == 0 {
		return 0, 0
	}
	start := from + blanks(f.out[from:limit])
	for at := start; at < limit && f.steps > 0; at++ {
		n := bytes.IndexByte(f.out[at:limit], l.text[0])
		if n < 0 || !l.ended && n > 0 {
			f.steps -= limit - at
			return 0, 0
		}
		f.steps -= n
		at += n
		if at > from && at != start && isWord(f.out[at-1]) {
			continue
		}
		length, same, whole := f.match(f.out[at:limit], l)
		switch {
		case whole && !l.ended && at+length < limit && f.out[at+length] > ' ':
			return 0, 0 // the program printed a longer text
		case at == start && (whole || same && limit == len(f.out)):
			return from, at + length
		case whole, same && limit == len(f.out) && length >= minPartial:
			return at, at + length
		case !l.ended:
			return 0, 0
		}
	}
	return 0, 0
}

// last finds the last echo of a line in a part of the output.
func (f *echoFinder) last(l typedLine, from, limit int) (begin, end int) {
	for at := limit; f.steps > 0 && len(l.text) > 0; {
		n := bytes.LastIndexByte(f.out[from:at], l.text[0])
		f.steps -= at - from - max(n, 0)
		if n < 0 {
			break
		}
		at = from + n
		length, same, whole := f.match(f.out[at:limit], l)
		if whole || same && limit == len(f.out) && length >= minPartial {
			return at, at + length
		}
	}
	return 0, 0
}

// match compares output with the echo of a line. same is true if the output is a prefix of the
// echo. whole is true if the output begins with the whole echo. length is the length of the match
// in the output, in bytes.
func (f *echoFinder) match(out []byte, l typedLine) (length int, same, whole bool) {
	for _, c := range l.text {
		f.steps--
		if length < len(out) && out[length] != c {
			length += blanks(out[length:])
		}
		if length == len(out) {
			return length, true, false
		}
		if out[length] != c {
			return 0, false, false
		}
		length++
	}
	if !l.ended {
		return length, true, true
	}
	length += blanks(out[length:])
	switch {
	case length == len(out):
		return length, true, false
	case out[length] != '\n':
		return 0, false, false
	}
	return length + 1, true, true
}

// blanks returns the length of the control sequences and carriage returns at the beginning of
// output. Line editors print a space and a carriage return at the right margin.
func blanks(out []byte) int {
	for at := 0; ; {
		rest := out[at:]
		switch {
		case len(rest) == 0:
			return at
		case rest[0] == '\r' || rest[0] == '\a':
			at++
		case rest[0] == ' ' && len(rest) > 1 && rest[1] == '\r':
			at += 2
		case rest[0] == 0x1b && (len(rest) == 1 || rest[1] == '['):
			n := bytes.IndexFunc(rest[min(2, len(rest)):], func(r rune) bool { return r >= '@' && r <= '~' })
			if n < 0 {
				return len(out)
			}
			at += 2 + n + 1
		case rest[0] == 0x1b:
			at += 2
		default:
			return at
		}
	}
}

// isWord reports whether a byte belongs to a word.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
