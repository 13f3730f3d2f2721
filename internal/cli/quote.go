package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted gives a name that somebody else has chosen, on one line and safe for a terminal: in Go's quotes if it has other than printable characters.
func quoted(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
