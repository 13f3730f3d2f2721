package patch

import (
	"bytes"
	"testing"
)

func TestDeltas(t *testing.T) {
	old := []byte("0123456789")
	for _, c := range []struct {
		name, delta, want string
		damaged           bool
	}{
		{name: "a copy and new bytes", delta: "\x0a\x06\x91\x02\x03\x03abc", want: "234abc"},
		{name: "nothing", delta: "\x0a\x00", want: ""},
		{name: "no sizes", delta: "", damaged: true},
		{name: "another old size", delta: "\x09\x00", damaged: true},
		{name: "too little", delta: "\x0a\x02\x01a", damaged: true},
		{name: "too much copied", delta: "\x0a\x02\x91\x02\x03", damaged: true},
		{name: "too much new", delta: "\x0a\x02\x03abc", damaged: true},
		{name: "beyond the old", delta: "\x0a\x03\x91\x08\x03", damaged: true},
		{name: "far beyond the old", delta: "\x0a\x03\x9f\xff\xff\xff\xff\x03", damaged: true},
		{name: "64 KiB, for which the old is too short", delta: "\x0a\x80\x80\x04\x80", damaged: true},
		{name: "a reserved code", delta: "\x0a\x01\x00a", damaged: true},
		{name: "cut in new bytes", delta: "\x0a\x03\x03ab", damaged: true},
		{name: "cut in a copy", delta: "\x0a\x03\x91\x02", damaged: true},
		{name: "a huge size", delta: "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", damaged: true},
		{name: "a size without an end", delta: "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", damaged: true},
	} {
		if got, err := applyDelta(old, []byte(c.delta)); string(got) != c.want || (err != nil) != c.damaged {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// FuzzDelta checks that no delta creates more content than the limit for a file.
func FuzzDelta(f *testing.F) {
	f.Add([]byte("0123456789"), []byte("\x0a\x06\x91\x02\x03\x03abc"))
	f.Add(bytes.Repeat([]byte("x"), 0x10000), []byte("\x80\x80\x04\x80\x80\x08\x80\x80"))
	f.Fuzz(func(t *testing.T, old, delta []byte) {
		if made, _ := applyDelta(old, delta); len(made) > MaxFile {
			t.Errorf("%d bytes", len(made))
		}
	})
}
