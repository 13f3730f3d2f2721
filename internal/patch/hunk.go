package patch

import (
	"bytes"
	"iter"
	"regexp"
	"strconv"
)

// hunk is a piece of a section. Its lines are in the patch still, and read from there.
type hunk struct {
	line           int    // of its header in the patch, from 1
	header         string // without CR, bounded
	start          int    // where it is in the old file according to its header, from 1; 0 before all lines
	newStart       int    // the same in the new file
	body           []byte
	old, new       int // lines that it is made of and that it makes
	added, removed int
	before, after  int // lines of context before the first change and after the last
}

// hunkForm is the form of a hunk's header. After it may stand a line of the file for orientation.
var hunkForm = regexp.MustCompile(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// hunk reads a hunk. The counts of its header tell where it ends, if they can be true: if so many lines are there, and what follows is no line of a hunk.
// Else its lines are counted again: all up to the next header or the end of the patch. Then empty lines at its end are taken as the distance to what
// follows, and not as context, and a line that is neither of a hunk nor a header is an error: part of the hunk could come after it.
func (p *parser) hunk(converted bool) (hunk, error) {
	line := p.peek()
	k := hunk{line: p.line, header: string(bytes.TrimSuffix(line[:min(len(line), 200)], []byte("\r")))}
	numbers := hunkForm.FindSubmatch(line)
	if numbers == nil {
		return k, invalid(p.line, "%q is not the header of a hunk, which is @@ -LINE,COUNT +LINE,COUNT @@", k.header)
	}
	k.start, k.newStart = number(numbers[1], 0), number(numbers[3], 0)
	p.skip()
	start := *p
	counted := p.counted(number(numbers[2], 1), number(numbers[4], 1))
	if !counted {
		p.reader = start.reader
		if err := p.recounted(); err != nil {
			return k, err
		}
	}
	k.body = p.text[start.at:p.at]
	if !counted {
		k.body = trimEmptyLines(k.body)
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
		return k, invalid(k.line, "the hunk changes nothing: no line after its header begins with + or -")
	}
	return k, nil
}

// number reads the digits of a header, or gives what stands for none.
func number(digits []byte, none int) int {
	if digits == nil {
		return none
	}
	n, _ := strconv.Atoi(string(digits)) // nine digits at most
	return n
}

// sign is the first letter of a line of a hunk, and 0 for a line of something else. An empty line is a line of context that lost its space.
func sign(line []byte) byte {
	switch {
	case len(line) == 0 || len(line) == 1 && line[0] == '\r':
		return ' '
	case line[0] == ' ' || line[0] == '+' || line[0] == '-' || line[0] == '\\':
		return line[0]
	}
	return 0
}

// counted goes past as many old and new lines as a header says, and tells whether that can be true.
func (p *parser) counted(old, now int) bool {
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
	after := p.reader
	for !after.ended() && len(bytes.TrimSuffix(after.peek(), []byte("\r"))) == 0 {
		after.skip()
	}
	return after.endsHunk() || sign(after.peek()) == 0
}

// recounted goes past all lines up to what can only be the end of a hunk.
func (p *parser) recounted() error {
	for first := true; !p.endsHunk(); first = false {
		line := p.peek()
		if s := sign(line); s == 0 || s == '\\' && first {
			return invalid(p.line, "%.200q is no line of a hunk, which begins with a space, + or -, and the counts in the hunk's header are not right either", line)
		}
		p.skip()
	}
	return nil
}

// endsHunk tells whether the patch ends here, or the next line begins something else although it may look like a line of a hunk: a header, or the signature
// of a mail.
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
			return len(line) > 0 && line[0] >= '0' && line[0] <= '9' // the version of git
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

// each gives the lines of a hunk with their signs, which are ' ', '-' and '+'. They end in their line break unless the patch says that there is none.
func (k *hunk) each() iter.Seq2[byte, span] {
	return func(yield func(byte, span) bool) {
		for at := 0; at < len(k.body); {
			line := span{int32(at), int32(at + bytes.IndexByte(k.body[at:], '\n') + 1)}
			at = int(line.to)
			s := sign(k.body[line.from : line.to-1])
			if s == '\\' { // a second one, which says nothing more
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

// from returns the context and the removed lines of a hunk, at most so many of them.
func (k *hunk) from(most int) lines { return k.without('+', min(k.old, most)) }

// to returns the context and the added lines of a hunk, at most so many of them.
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
