package listing

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// escaped begins an escaped path. No clean path begins with it, because of its two slashes.
const escaped = "file://"

// Escape returns a path as a text. A path in UTF-8 is its own text. For other paths, the text is
// "file://" and the path with escapes. An escape is a percent sign and two hex digits, for a byte
// that is not UTF-8 or for a percent sign. [Unescape] returns the path again, if it was clean.
func Escape(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	var text strings.Builder
	text.WriteString(escaped)
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		if r == '%' || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&text, "%%%02X", path[0])
		} else {
			text.WriteString(path[:n])
		}
		path = path[n:]
	}
	return text.String()
}

// Unescape returns the path that a text encodes. A text that does not begin with "file://" is the
// path itself.
func Unescape(text string) (string, error) {
	path, ok := strings.CutPrefix(text, escaped)
	if !ok {
		return text, nil
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return "", fmt.Errorf("the path begins with %s, so %%25 must replace a percent sign: %w", escaped, err)
	}
	return path, nil
}
