package program

import (
	"bytes"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// LineLimit is the longest line that a terminal accepts for a program that reads whole lines, in
// bytes without the line break. The terminal drops the rest of a longer line. Linux and gVisor have
// the same limit.
const LineLimit = 4095

// lineEnds are the keys after which a terminal begins a new line: Enter, Ctrl-C, Ctrl-D, Ctrl-U,
// Ctrl-Z and Ctrl-\.
const lineEnds = "\n\r\x03\x04\x15\x1a\x1c"

// LongestLine returns the length of the longest typed line in bytes, if begun bytes of the first
// line were typed before. rest is the length of the last line if its end is not typed yet.
func LongestLine(begun int, typed []byte) (longest, rest int) {
	rest = begun
	for {
		n := bytes.IndexAny(typed, lineEnds)
		if n < 0 {
			rest += len(typed)
			return max(longest, rest), rest
		}
		longest = max(longest, rest+n)
		typed, rest = typed[n+1:], 0
	}
}

// CheckLine returns an error if a line is longer than the limit of its terminal. 0 is no limit.
func CheckLine(length, limit int) error {
	if limit == 0 || length <= limit {
		return nil
	}
	return fault.Newf(fault.Invalid, "a line of %d bytes: its program reads whole lines, of at most %d bytes each; nothing was typed", length, limit).
		WithHint("type shorter lines, or write the text to a file that the program reads")
}
