package ptymcp

import (
	"testing"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestKeys(t *testing.T) {
	for key, want := range map[string]string{
		"enter": "\r", "Enter": "\r", "ctrl-c": "\x03", "CTRL-C": "\x03", "ctrl-[": "\x1b", "ctrl-space": "\x00", "ctrl-?": "\x7f", "alt-b": "\x1bb", "meta-B": "\x1bB",
		"ctrl-alt-x": "\x1b\x18", "up": "\x1b[A", "ctrl-up": "\x1b[1;5A", "shift-alt-right": "\x1b[1;4C", "shift-tab": "\x1b[Z", "pageup": "\x1b[5~", "shift-pageup": "\x1b[5;2~",
		"f1": "\x1bOP", "ctrl-f1": "\x1b[1;5P", "f12": "\x1b[24~", "alt-enter": "\x1b\r", "a": "a", "é": "é", "shift-é": "É", "-": "-", "ctrl--": "", "ctrl-_": "\x1f", "alt--": "\x1b-",
		"ctrl-é": "", "ctrl-1": "", "hyper-x": "", "": "", "ab": "", "\n": "", "ctrl-enter": "", "ctrl-": "", "\xff": "�",
	} {
		got, err := sequences([]string{key})
		if want == "" && fault.KindOf(err) != fault.Invalid || want != "" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v, not %q", key, got, err, want)
		}
	}
	if _, err := sequences(make([]string, maxKeys+1)); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"enter", "ctrl-c", "ctrl-shift-up", "alt--", "é", "ctrl-é", "\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		s, err := sequences([]string{key})
		if err == nil && (s == "" || len(s) > 16 || !utf8.ValidString(s)) || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %q, %v", key, s, err)
		}
	})
}
