package pyro

import (
	"bytes"
	"strings"
	"testing"
)

func TestOutputIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		writes    []string
		want      string
		encoding  Encoding
		truncated bool
	}{
		"nothing":                   {nil, "", UTF8, false},
		"text":                      {[]string{"grüß ", "gott\n"}, "grüß gott\n", UTF8, false},
		"a character in two writes": {[]string{"\xc3", "\xbc"}, "ü", UTF8, false},
		"bytes":                     {[]string{"\xff\x00"}, "/wA=", Base64, false},
		"to the brim":               {[]string{strings.Repeat("x", MaxOutput)}, strings.Repeat("x", MaxOutput), UTF8, false},
		"more":                      {[]string{strings.Repeat("x", MaxOutput), "y"}, strings.Repeat("x", MaxOutput), UTF8, true},
		"cut through a character":   {[]string{strings.Repeat("x", MaxOutput-1) + "ü"}, strings.Repeat("x", MaxOutput-1), UTF8, true},
	} {
		t.Run(name, func(t *testing.T) {
			held := newOutput(nil, false)
			for _, w := range c.writes {
				if n, err := held.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			text, encoding := held.text()
			if text != c.want || encoding != c.encoding || held.buffer.Truncated != c.truncated {
				t.Errorf("%d bytes as %s, truncated %v", len(text), encoding, held.buffer.Truncated)
			}
		})
	}
}

func TestOutputRoundTrip(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	out, err := newOutput(nil, false), newOutput(nil, false)
	out.Write(all)
	err.Write([]byte("text"))
	r := RunResult{}
	r.printed(out, err)
	stdout, stderr := r.Output()
	if !bytes.Equal(stdout, all) || string(stderr) != "text" || r.StdoutEncoding != Base64 || r.StderrEncoding != UTF8 {
		t.Errorf("%q as %s, %q as %s", stdout, r.StdoutEncoding, stderr, r.StderrEncoding)
	}
}
