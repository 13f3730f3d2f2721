package runes

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCuts(t *testing.T) {
	const text = "aé日😀"
	starts := map[int]bool{0: true, 1: true, 3: true, 6: true, 10: true}
	for at := range len(text) + 1 {
		head, rest := Head(text[:at]), Rest(text[at:])
		if !starts[len(head)] || at-len(head) >= 4 || starts[at] && len(head) != at {
			t.Errorf("cut at %d: the head has %d bytes", at, len(head))
		}
		if !starts[at+rest] || starts[at] && rest != 0 {
			t.Errorf("cut at %d: got %d bytes of a partial character", at, rest)
		}
	}
	for binary, want := range map[string]int{"": 0, "\xff": 0, "\x80\x80": 0, "a\x80\x80\x80\x80": 0, "\xf0\x9f": 2} {
		if got := Partial([]byte(binary)); got != want {
			t.Errorf("%q: %d, want %d", binary, got, want)
		}
	}
	if got := Rest("\x80\x80\x80\x80\x80"); got != 4 {
		t.Errorf("bytes that are not UTF-8: got %d", got)
	}
}

func TestNoText(t *testing.T) {
	for text, bad := range map[string]bool{
		`{"a":"x"}`: false, `"é😀"`: false, `"\u00e9"`: false, `"\ud83d\ude00"`: false, `"\uD83D\uDE00x"`: false, `"\\ud800"`: false, `"\\\\ud800"`: false, `"\ufffd"`: false,
		`"\ud800"`: true, `"\udc00"`: true, `"\ud83dx\ude00"`: true, `"\ud83d\ud83d\ude00"`: true, `"\\\ud800"`: true, `"\ude00\ud83d"`: true, "\"\xff\"": true, `"\ud800`: true,
		`\`: false, `"\u12`: false, `"\uzzzz"`: false, ``: false,
	} {
		if err := CheckText([]byte(text)); bad != (err != nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzNoText(f *testing.F) {
	f.Add("\"\\ud83d\\ude00\\\\\"")
	f.Add("\"\\ud800\"")
	f.Fuzz(func(t *testing.T, text string) {
		var decoded string
		if json.Unmarshal([]byte(text), &decoded) != nil {
			return
		}
		// U+FFFD in the result without one in the text means that the decoder replaced something.
		replaced := strings.ContainsRune(decoded, utf8.RuneError)
		if strings.Contains(text, "\ufffd") || strings.Contains(strings.ToLower(text), "\\ufffd") {
			return
		}
		if err := CheckText([]byte(text)); replaced != (err != nil) {
			t.Fatalf("%q became %q: %v", text, decoded, err)
		}
	})
}
