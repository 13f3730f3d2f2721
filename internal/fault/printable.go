package fault

import "strings"

// Printable drops from a text that a machine, an image or a registry chose what could do more on a terminal than be read. Line breaks stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && r != 0xfffd && (r < 0x80 || r > 0x9f) {
			return r
		}
		return -1
	}, s)
}

// CommandLine gives a command as a shell would be told it, safe for a terminal.
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
