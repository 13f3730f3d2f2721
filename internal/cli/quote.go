package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted returns a name on one line that is safe to print on a terminal. If the name has
// unprintable characters, quoted returns a Go string literal.
func quoted(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
