package program

import (
	"strings"
	"testing"
)

func TestLongestLine(t *testing.T) {
	for _, c := range []struct {
		begun         int
		typed         string
		longest, rest int
	}{
		{0, "", 0, 0},
		{5, "", 5, 5},
		{5, "abc", 8, 8},
		{5, "abc\n", 8, 0},
		{5, "\nabcdef", 6, 6},
		{0, "a\rbcd\nef", 3, 2},
		{9, "\x15abc\x04d", 9, 1},
		{0, "é\n", 2, 0},
	} {
		if longest, rest := LongestLine(c.begun, []byte(c.typed)); longest != c.longest || rest != c.rest {
			t.Errorf("%d, %q: %d, %d", c.begun, c.typed, longest, rest)
		}
	}
	if CheckLine(LineLimit, LineLimit) != nil || CheckLine(1<<20, 0) != nil {
		t.Error("a line that fits was refused")
	}
	if err := CheckLine(LineLimit+1, LineLimit); err == nil || !strings.Contains(err.Error(), "4096 bytes") {
		t.Error(err)
	}
}
