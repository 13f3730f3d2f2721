// Package runes finds incomplete characters: at the start and the end of a text that was cut at any
// byte, and in JSON.
package runes

import "unicode/utf8"

// Partial returns how many bytes at the end of text belong to an incomplete UTF-8 character.
func Partial[T ~string | ~[]byte](text T) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRuneInString(string(last)) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Head returns text without an incomplete character at its end.
func Head[T ~string | ~[]byte](text T) T { return text[:len(text)-Partial(text)] }

// Rest returns how many bytes at the start of text continue a character that began before text.
func Rest[T ~string | ~[]byte](text T) int {
	n := 0
	for n < utf8.UTFMax && n < len(text) && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}
