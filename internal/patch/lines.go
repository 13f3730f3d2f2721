package patch

import "bytes"

// lines are lines of a text. There may be millions, so each takes no more than it needs to be found again.
type lines struct {
	text  []byte
	spans []span
}

// span is where a line begins and ends.
type span struct{ from, to int32 }

// linesOf finds the lines of a text, which end in their line breaks.
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

// between are the lines from one up to another, as far as they are there.
func (l lines) between(from, to int) lines {
	to = min(to, len(l.spans))
	return lines{l.text, l.spans[min(from, to):to]}
}

// ended tells whether a line has a line break.
func ended(line []byte) bool { return bytes.HasSuffix(line, []byte("\n")) }

// bare is a line without what it ends in.
func bare(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// sameText tells whether two lines are the same but for what they end in.
func sameText(a, b []byte) bool { return bytes.Equal(a, b) || bytes.Equal(bare(a), bare(b)) }
