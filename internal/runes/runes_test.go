package runes

import "testing"

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
