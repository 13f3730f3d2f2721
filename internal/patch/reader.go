package patch

import (
	"bytes"
	"fmt"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// reader reads a patch line by line.
type reader struct {
	text []byte // ends in a line break
	at   int    // offset of the next line
	line int    // number of the next line, from 1
}

// ended reports whether the reader has read all lines.
func (r *reader) ended() bool { return r.at == len(r.text) }

// peek returns the next line without its line break. At the end of the patch it returns nothing.
func (r *reader) peek() []byte {
	line, _, _ := bytes.Cut(r.text[r.at:], []byte("\n"))
	return line
}

// skip consumes the next line.
func (r *reader) skip() {
	if !r.ended() {
		r.at += bytes.IndexByte(r.text[r.at:], '\n') + 1
		r.line++
	}
}

// has reports whether the next line has the prefix.
func (r *reader) has(prefix string) bool { return bytes.HasPrefix(r.text[r.at:], []byte(prefix)) }

// hasPair reports whether the next three lines are a file header and a hunk header. It needs the
// third line, because the first two lines alone could be a removed and an added line of a hunk.
func (r *reader) hasPair() bool {
	if !r.has("--- ") {
		return false
	}
	ahead := *r
	if ahead.skip(); !ahead.has("+++ ") {
		return false
	}
	ahead.skip()
	return ahead.has("@@")
}

// invalid returns the fault for a malformed line of a patch.
func invalid(line int, format string, args ...any) error {
	return fault.New(fault.Invalid, op, "", "line %d of the patch: %s", line, fmt.Sprintf(format, args...))
}
