//go:build machine

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadsAreFresh checks that list, diff and export see what a program has just done, although
// the host can read the files without the machine.
func TestReadsAreFresh(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t))
	p.shell(id, `cat >/tmp/steps.py <<'end'
import mmap, os, sys
n = int(sys.argv[1])
os.makedirs("new/d%d" % n)
with open("new/d%d/mapped" % n, "w+b") as f:
    f.truncate(10)
    m = mmap.mmap(f.fileno(), 10)
    m[:] = b"mapped %03d" % n
with open("new/part", "wb", buffering=0) as f: f.write(b"part %d\n" % n)
os.rename("new/part", "new/file")
os.chmod("new/file", 0o600 + n)
with open("large", "ab", buffering=0) as f: f.write(b"%d\n" % n)
if n > 0: os.remove("new/d%d/mapped" % (n - 1))
end`)
	large := ""
	for n := range 10 {
		p.shell(id, fmt.Sprintf("cd /workspace && python3 /tmp/steps.py %d", n))
		large += fmt.Sprintf("%d\n", n)
		list := p.must("workspace", "file", "list", id, "--recursive", "--json")
		for _, want := range []string{fmt.Sprintf(`"/workspace/new/d%d/mapped"`, n), `"/workspace/new/file"`, fmt.Sprintf(`"06%02o"`, n)} {
			if !strings.Contains(list, want) {
				t.Errorf("%d: the list lacks %s:\n%s", n, want, list)
			}
		}
		if n > 0 && strings.Contains(list, fmt.Sprintf("d%d/mapped", n-1)) {
			t.Errorf("%d: the list has a removed file", n)
		}
		diff := p.must("workspace", "diff", id)
		for _, want := range []string{fmt.Sprintf("+mapped %03d\n", n), fmt.Sprintf("+part %d\n", n), fmt.Sprintf("+%d\n", n)} {
			if !strings.Contains(diff, want) {
				t.Errorf("%d: the diff lacks %q:\n%s", n, want, diff)
			}
		}
		out := filepath.Join(t.TempDir(), "out")
		p.must("workspace", "export", id, "/workspace", "--output", out)
		if b, err := os.ReadFile(filepath.Join(out, "large")); err != nil || string(b) != large {
			t.Errorf("%d: exported %q, %v", n, b, err)
		}
	}
}

// TestReadsListSockets checks that a list and a diff contain the sockets and pipes of programs.
// Under gVisor these are only in the machine's memory.
func TestReadsListSockets(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t))
	contains := func(what string, args ...string) {
		t.Helper()
		if got := p.must(append([]string{"workspace"}, args...)...); !strings.Contains(got, what) {
			t.Errorf("%v lacks %s:\n%s", args, what, got)
		}
	}
	lists := func(id, what string) {
		t.Helper()
		contains(what, "file", "list", id, "--recursive")
		contains(what, "file", "list", id, "made")
	}
	has := func(id, what string) {
		t.Helper()
		lists(id, what)
		contains(what, "diff", id, "--json")
	}
	p.shell(id, "mkdir made && echo text >made/file")
	has(id, "made")
	p.shell(id, `mkfifo made/fifo && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("made/socket")'`)
	has(id, "made/fifo")
	has(id, "made/socket")
	p.must("workspace", "pause", id)
	has(id, "made/fifo")
	fork := p.forkLive(id, 1)[0]
	lists(fork, "made/fifo") // in block storage, its baseline has the pipe too
	p.must("workspace", "export", id, "/workspace/made", "--output", filepath.Join(t.TempDir(), "out"))
}
