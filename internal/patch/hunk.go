package patch

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// hunk is one hunk of a section. It does not copy its lines, but reads them from the patch.
type hunk struct {
	line           int    // Line number of its header, from 1.
	header         string // Without CR, cut to 200 bytes.
	start          int    // First old line in the header, from 1. 0 means before all lines.
	newStart       int    // First new line in the header.
	body           []byte
	old, new       int // Numbers of old and new lines.
	added, removed int
	before, after  int // Number of context lines before the first change and after the last change.

	// longer is the same hunk with the lines after it, if these lines look like hunk lines. It is
	// used if the hunk itself does not match, because then the counts in the header are wrong.
	longer *hunk
}

// hunkForm matches a hunk header. Text can follow it, usually a line of the file for orientation.
var hunkForm = lazyregexp.New(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// hunk reads a hunk. If that many lines exist, the counts in the header determine the end of the
// hunk. The lines after it can be other text, even if they begin with a space, + or -.
//
// Otherwise the hunk extends to the next header or to the end of the patch. Empty lines at the end
// of the hunk are then separators, not context. A line that is neither a hunk line nor a header is
// then an error, because more lines of the hunk could follow it.
func (p *parser) hunk(converted bool) (hunk, error) {
	line := p.peek()
	k := hunk{line: p.line, header: string(bytes.TrimSuffix(line[:min(len(line), 200)], []byte("\r")))}
	numbers := hunkForm().FindSubmatch(line)
	if numbers == nil {
		return k, invalid(p.line, "%q is not a hunk header, which has the form @@ -LINE,COUNT +LINE,COUNT @@", k.header)
	}
	k.start, k.newStart = number(numbers[1], 0), number(numbers[3], 0)
	p.skip()
	start := *p
	if p.counted(number(numbers[2], 1), number(numbers[4], 1)) {
		k.body = p.text[start.at:p.at]
		if p.continuesHunk() {
			p.readBeyondCounts(&k, start.reader)
		}
	} else {
		p.reader = start.reader
		if err := p.skipToEnd(); err != nil {
			return k, err
		}
		k.body = trimEmptyLines(p.text[start.at:p.at])
	}
	if err := k.finish(converted); err != nil {
		return k, err
	}
	return k, nil
}

// continuesHunk reports whether the next line can belong to the hunk before it.
func (p *parser) continuesHunk() bool {
	after := p.reader
	for !after.ended() && len(bytes.TrimSuffix(after.peek(), []byte("\r"))) == 0 {
		after.skip()
	}
	return !after.endsHunk() && sign(after.peek()) != 0
}

// readBeyondCounts reads the lines after the end of a hunk according to its counts, if all of them
// look like hunk lines. If another hunk follows them, the counts are wrong.
func (p *parser) readBeyondCounts(k *hunk, start reader) {
	longer := *p
	longer.reader = start
	if longer.skipToEnd() != nil {
		return
	}
	body := trimEmptyLines(p.text[start.at:longer.at])
	p.reader = longer.reader
	if p.has("@@") {
		k.body = body
		return
	}
	k.longer = &hunk{line: k.line, header: k.header, start: k.start, newStart: k.newStart, body: body}
}

// finish sets the line counts of a hunk from its lines.
func (k *hunk) finish(converted bool) error {
	if k.longer != nil && k.longer.finish(converted) != nil {
		k.longer = nil
	}
	if converted {
		k.body = bytes.ReplaceAll(k.body, []byte("\r\n"), []byte("\n"))
	}
	for sign := range k.each() {
		switch sign {
		case ' ':
			k.old++
			k.new++
			k.after++
			continue
		case '-':
			k.old++
			k.removed++
		case '+':
			k.new++
			k.added++
		}
		if k.added+k.removed == 1 {
			k.before = k.after
		}
		k.after = 0
	}
	if k.added+k.removed == 0 {
		return invalid(k.line, "the hunk changes nothing: no line after its header begins with + or -")
	}
	return nil
}

// number parses digits in a header. If digits is nil, it returns none.
func number(digits []byte, none int) int {
	if digits == nil {
		return none
	}
	n, _ := strconv.Atoi(string(digits)) // There are at most nine digits.
	return n
}

// sign returns the first character of a hunk line. For other lines it returns 0. An empty line is a
// context line that has lost its space.
func sign(line []byte) byte {
	switch {
	case len(line) == 0 || len(line) == 1 && line[0] == '\r':
		return ' '
	case line[0] == ' ' || line[0] == '+' || line[0] == '-' || line[0] == '\\':
		return line[0]
	}
	return 0
}

// counted skips the number of old and new lines in the header. It returns false if there are fewer
// lines.
func (p *parser) counted(old, now int) bool {
	if old == 0 && now == 0 {
		return false
	}
	for first := true; old > 0 || now > 0; first = false {
		if p.ended() {
			return false
		}
		switch sign(p.peek()) {
		case ' ':
			old--
			now--
		case '-':
			old--
		case '+':
			now--
		case '\\':
			if first {
				return false
			}
		default:
			return false
		}
		if old < 0 || now < 0 {
			return false
		}
		p.skip()
	}
	if p.has(`\`) {
		p.skip()
	}
	return true
}

// skipToEnd skips all lines before the next line that certainly ends the hunk.
func (p *parser) skipToEnd() error {
	for first := true; !p.endsHunk(); first = false {
		line := p.peek()
		if s := sign(line); s == 0 || s == '\\' && first {
			return invalid(p.line, "%.200q does not begin with a space, + or -, and the counts in the hunk's header are wrong", line)
		}
		p.skip()
	}
	return nil
}

// endsHunk reports whether the hunk certainly ends here. This is the case at the end of the patch,
// and if the next line begins a header or a mail signature. Such lines can look like hunk lines.
func (r *reader) endsHunk() bool {
	if r.ended() {
		return true
	}
	switch r.text[r.at] {
	case '-':
		if r.has("-- \n") || r.has("--\n") {
			ahead := *r
			ahead.skip()
			line := ahead.peek()
			return len(line) > 0 && line[0] >= '0' && line[0] <= '9' // git's version number
		}
		return r.hasPair()
	case '@', 'd', 'I', '`':
		return r.has("@@") || r.has("diff ") || r.has("Index: ") || r.has("```")
	}
	return false
}

func trimEmptyLines(body []byte) []byte {
	for {
		rest := bytes.TrimSuffix(bytes.TrimSuffix(body, []byte("\n")), []byte("\r"))
		if len(rest) == len(body) || len(rest) > 0 && rest[len(rest)-1] != '\n' {
			return body
		}
		body = rest
	}
}

// each yields the lines of a hunk with their signs: ' ', '-' or '+'. A line includes its line
// break, unless the patch states that the line has none.
func (k *hunk) each() iter.Seq2[byte, span] {
	return func(yield func(byte, span) bool) {
		for at := 0; at < len(k.body); {
			line := span{int32(at), int32(at + bytes.IndexByte(k.body[at:], '\n') + 1)}
			at = int(line.to)
			s := sign(k.body[line.from : line.to-1])
			if s == '\\' { // This is a repeated "\ No newline" marker.
				continue
			}
			if first := k.body[line.from]; first != '\n' && first != '\r' {
				line.from++
			}
			if at < len(k.body) && k.body[at] == '\\' {
				line.to--
			}
			if !yield(s, line) {
				return
			}
		}
	}
}

// from returns the context lines and removed lines of a hunk. The parameter most limits
// the number of lines.
func (k *hunk) from(most int) lines { return k.without('+', min(k.old, most)) }

// to returns the context lines and added lines of a hunk. The parameter most limits
// the number of lines.
func (k *hunk) to(most int) lines { return k.without('-', min(k.new, most)) }

func (k *hunk) without(not byte, count int) lines {
	some := lines{k.body, make([]span, 0, count)}
	for sign, line := range k.each() {
		if sign != not && len(some.spans) < count {
			some.spans = append(some.spans, line)
		}
	}
	return some
}
