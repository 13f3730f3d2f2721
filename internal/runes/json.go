package runes

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckText returns an error if a text of JSON has something that is not a character: a lone half
// of a surrogate pair, or bytes that are not UTF-8. Decoders would silently replace such parts.
func CheckText(json []byte) error {
	if !utf8.Valid(json) {
		return fmt.Errorf("it is not UTF-8")
	}
	for {
		at := bytes.IndexByte(json, '\\')
		if at < 0 || at+1 >= len(json) {
			return nil
		}
		first := escapedRune(json[at:])
		switch {
		case first < 0:
			json = json[at+2:]
		case !utf16.IsSurrogate(first):
			json = json[at+6:]
		case utf16.DecodeRune(first, escapedRune(json[at+6:])) == utf8.RuneError:
			return fmt.Errorf(`it has the lone surrogate \u%04x, which is not a character`, first)
		default:
			json = json[at+12:]
		}
	}
}

// escapedRune returns the value of an escape of the form \uXXXX at the start of a text, or -1.
func escapedRune(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	value, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(value)
}
