package patch

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits for the lines in a conflict.
const (
	shownLines = 7
	shownRunes = 200
)

// Conflict describes why a patch does not fit a tree. The length of its texts is limited. All texts
// except Path are printable.
type Conflict struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Hunk   int    `json:"hunk,omitempty"`   // Number of the hunk in its file, from 1. 0 means the whole file.
	Header string `json:"header,omitempty"` // Header of the hunk.
	Line   int    `json:"line,omitempty"`   // Number of the first line in Found, from 1.
	// Expected contains the lines that the patch expects. Found contains the lines in the file.
	// Both begin just before the first mismatch, at the position where most of the hunk matches.
	// They have no line breaks.
	Expected []string `json:"expected,omitempty"`
	Found    []string `json:"found,omitempty"`
}

// Error returns a text without the path and the lines. The enclosing fault contains the path.
func (c *Conflict) Error() string {
	if c.Hunk == 0 {
		return c.Reason
	}
	return fmt.Sprintf("hunk %d (%s) %s", c.Hunk, c.Header, c.Reason)
}

// conflict returns the fault for a patch that does not fit the file at path.
func conflict(path, format string, args ...any) error {
	return (&Conflict{Path: path, Reason: fmt.Sprintf(format, args...)}).fault()
}

func (c *Conflict) fault() error {
	return &fault.Error{Op: op, Subject: c.Path, Kind: fault.Precondition, Err: c}
}

// shown prepares lines for display in a conflict.
func shown(l lines) []string {
	out := []string{}
	for i := range min(l.count(), shownLines) {
		out = append(out, printable(bare(l.at(i))))
	}
	return out
}

// printable replaces unprintable characters, and limits the text to shownRunes characters.
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
