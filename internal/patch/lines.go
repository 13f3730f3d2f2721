package patch

import "bytes"

// lines is a text that is split into lines. There can be millions of lines, so each line needs only
// the memory of a span.
type lines struct {
	text  []byte
	spans []span
}

// span contains the byte offsets of the start and the end of a line.
type span struct{ from, to int32 }

// linesOf splits a text into lines. Each line includes its line break.
func linesOf(text []byte) lines {
	l := lines{text, make([]span, 0, bytes.Count(text, []byte("\n"))+1)}
	for at := 0; at < len(text); {
		end := len(text)
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		l.spans = append(l.spans, span{int32(at), int32(end)})
		at = end
	}
	return l
}

func (l lines) count() int { return len(l.spans) }

func (l lines) at(i int) []byte { return l.text[l.spans[i].from:l.spans[i].to] }

// between returns the lines i with from <= i < to. It ignores indexes that do not exist.
func (l lines) between(from, to int) lines {
	to = min(to, len(l.spans))
	return lines{l.text, l.spans[min(from, to):to]}
}

// ended reports whether a line has a line break.
func ended(line []byte) bool { return bytes.HasSuffix(line, []byte("\n")) }

// bare returns a line without its line break.
func bare(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// sameText reports whether two lines are equal, ignoring their line breaks.
func sameText(a, b []byte) bool { return bytes.Equal(a, b) || bytes.Equal(bare(a), bare(b)) }
