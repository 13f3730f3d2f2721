package lines

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNext(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	r := NewReader(iotest.HalfReader(strings.NewReader("one\r\n\n \ttwo \n"+long+"\n"+long[:99_999]+"\nlast")), 100_000)
	for i, want := range []struct {
		line string
		fits bool
		err  error
	}{{"one", true, nil}, {"", true, nil}, {"two", true, nil}, {"", false, nil}, {long[:99_999], true, nil}, {"last", true, io.EOF}, {"", true, io.EOF}} {
		line, fits, err := r.Next()
		if string(line) != want.line || fits != want.fits || err != want.err {
			t.Errorf("%d: %.20q of %d bytes, %v, %v", i, line, len(line), fits, err)
		}
	}
}
