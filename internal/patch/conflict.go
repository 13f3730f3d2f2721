package patch

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Bounds of what a conflict shows.
const (
	shownLines = 7
	shownRunes = 200
)

// Conflict says why a patch does not fit a tree. Its texts are bounded and, but for the path, printable.
type Conflict struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Hunk   int    `json:"hunk,omitempty"`   // its number in its file, from 1; 0 where the whole file is meant
	Header string `json:"header,omitempty"` // of the hunk
	Line   int    `json:"line,omitempty"`   // that of the first line found, from 1
	// Some lines that the patch expects, beginning just before the first that is not as expected, and as many that are in the file instead. They are of the
	// place where most of the hunk is found, without their line breaks.
	Expected []string `json:"expected,omitempty"`
	Found    []string `json:"found,omitempty"`
}

// Error tells all but the path, which the fault around it tells, and the lines.
func (c *Conflict) Error() string {
	if c.Hunk == 0 {
		return c.Reason
	}
	return fmt.Sprintf("hunk %d (%s) %s", c.Hunk, c.Header, c.Reason)
}

// conflict is the fault of a patch that does not fit what is at a path.
func conflict(path, format string, args ...any) error {
	return (&Conflict{Path: path, Reason: fmt.Sprintf(format, args...)}).fault()
}

func (c *Conflict) fault() error {
	return &fault.Error{Op: op, Subject: c.Path, Kind: fault.Precondition, Err: c}
}

// shown makes lines of a file or patch fit for a conflict.
func shown(l lines) []string {
	out := []string{}
	for i := range min(l.count(), shownLines) {
		out = append(out, printable(bare(l.at(i))))
	}
	return out
}

// printable is a text that can be shown. What can't be seen is a replacement character.
func printable(text []byte) string {
	cut := text[:min(len(text), 4*shownRunes)]
	runes := bytes.Runes(cut)
	whole := len(cut) == len(text)
	if len(runes) > shownRunes {
		runes, whole = runes[:shownRunes], false
	}
	s := strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(runes))
	if !whole {
		s += "…"
	}
	return s
}
