package listing

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"/workspace/é": "/workspace/é", "a%20b": "a%20b", "": "", "file:/a": "file:/a", "\ufffd": "\ufffd",
		"/workspace/caf\xe9": "file:///workspace/caf%E9", "caf\xe9/100%": "file://caf%E9/100%25", "é\xff\n": "file://é%FF\n",
	} {
		got := Escape(name)
		if got != want {
			t.Errorf("%q became %q, not %q", name, got, want)
		}
		if back, err := Unescape(got); back != name || err != nil {
			t.Errorf("%q came back as %q, %v", name, back, err)
		}
	}
	if got, err := Unescape("file:///workspace/a%20b"); got != "/workspace/a b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, wrong := range []string{"file:///a%", "file:///a%zz"} {
		if got, err := Unescape(wrong); err == nil {
			t.Errorf("%q was taken as %q", wrong, got)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("/a/\xff%")
	f.Add("file://x")
	f.Fuzz(func(t *testing.T, name string) {
		name = path.Clean(name)
		text := Escape(name)
		if back, err := Unescape(text); back != name || err != nil || !utf8.ValidString(text) {
			t.Fatalf("%q became %q, and came back as %q, %v", name, text, back, err)
		}
		if utf8.ValidString(name) == strings.HasPrefix(text, escaped) {
			t.Fatalf("%q became %q", name, text)
		}
	})
}
