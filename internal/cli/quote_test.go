package cli

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro"
)

func TestNamesAreSafeForTerminal(t *testing.T) {
	for name, want := range map[string]string{
		"plain": "plain", "with space ünïcödé": "with space ünïcödé", "": "", "a\nb": `"a\nb"`, "\x1b[31mred": `"\x1b[31mred"`, `"a"`: `"\"a\""`,
		"\u202egnp": `"\u202egnp"`, "\xff": `"\xff"`, "\u009b31m": `"\u009b31m"`,
	} {
		if got := quoted(name); got != want {
			t.Errorf("%q is printed as %s, want %s", name, got, want)
		}
	}
	var out bytes.Buffer
	list := &fileList{begun: true, out: bufio.NewWriter(&out)}
	err := list.each(newDiskList())(nil, pyro.FileEntry{Path: "/workspace/a\nb\x1b[2J", LinkTarget: "c\nd"})
	if err = errors.Join(err, list.out.Flush()); err != nil || !strings.HasSuffix(out.String(), `"/workspace/a\nb\x1b[2J" -> "c\nd"`+"\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
