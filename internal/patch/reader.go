package patch

import (
	"bytes"
	"fmt"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// reader reads a patch line by line.
type reader struct {
	text []byte // ends in a line break
	at   int    // where the next line begins
	line int    // its number, from 1
}

// ended tells whether there is no further line.
func (r *reader) ended() bool { return r.at == len(r.text) }

// peek gives the next line without its line break; nothing at the end.
func (r *reader) peek() []byte {
	line, _, _ := bytes.Cut(r.text[r.at:], []byte("\n"))
	return line
}

// skip goes past the next line.
func (r *reader) skip() {
	if !r.ended() {
		r.at += bytes.IndexByte(r.text[r.at:], '\n') + 1
		r.line++
	}
}

// has tells whether the next line begins so.
func (r *reader) has(prefix string) bool { return bytes.HasPrefix(r.text[r.at:], []byte(prefix)) }

// hasPair tells whether the next three lines are the header of a file and that of a hunk. Two alone may also be lines of a hunk, removed and added.
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

// invalid is the fault of a patch that makes no sense at a line.
func invalid(line int, format string, args ...any) error {
	return fault.New(fault.Invalid, op, "", "line %d of the patch: %s", line, fmt.Sprintf(format, args...))
}
