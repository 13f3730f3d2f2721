package fault

import "strings"

// Printable removes control characters and invalid UTF-8 from untrusted text, so that a terminal
// can show it. It keeps line breaks.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && r != 0xfffd && (r < 0x80 || r > 0x9f) {
			return r
		}
		return -1
	}, s)
}

// CommandLine quotes a command for a shell. The result is safe to print on a terminal.
func CommandLine(argv []string) string {
	var words []string
	for _, a := range argv {
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%") != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return Printable(strings.Join(words, " "))
}
