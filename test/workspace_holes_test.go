//go:build machine

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// diskUsage returns the number of bytes that a file or a folder occupies.
func diskUsage(t *testing.T, path string) int {
	t.Helper()
	out, err := exec.Command("du", "-s", "-B1", path).Output()
	size, _, _ := strings.Cut(string(out), "\t")
	n, wrong := strconv.Atoi(size)
	if err != nil || wrong != nil {
		t.Fatalf("%s, %v, %v", out, err, wrong)
	}
	return n
}

// TestHoles moves a sparse file, which is larger than the disk of the workspace, in every way. The
// holes must take no space.
func TestHoles(t *testing.T) {
	t.Parallel()
	const size, few = 300 << 20, 64 << 20
	seed := t.TempDir()
	hole := filepath.Join(seed, "hole")
	f, err := os.Create(hole)
	if err == nil {
		_, err = f.WriteAt([]byte("data\n"), 200_000_001)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	archive := filepath.Join(t.TempDir(), "seed.tar.gz")
	if out, err := exec.Command("tar", "-S", "--format=gnu", "-czf", archive, "-C", seed, ".").CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}

	p := workspaces(t)
	grown := func(when string) {
		t.Helper()
		if n := diskUsage(t, p.state); n > few {
			t.Errorf("%s the state folder has %d bytes", when, n)
		}
	}
	id := p.create("--seed-path", seed, "--disk-mib", "256")
	grown("after the seed")
	p.must("workspace", "snapshot", "create", id, "one")
	fork := strings.TrimSpace(p.must("workspace", "fork", id, "--id-only"))
	grown("after a snapshot and a fork")
	p.must("workspace", "sync", "push", id, archive, "--dest", "pushed")
	p.must("workspace", "cp", hole, id+":copied")
	grown("after a push and a copy")
	if got := p.shell(id, `for f in hole pushed/hole copied; do stat -c %s $f && tail -c +200000002 $f | head -n 1; done`); got != strings.Repeat(strconv.Itoa(size)+"\ndata\n", 3) {
		t.Errorf("%q", got)
	}
	from := p.create("--seed-path", archive, "--disk-mib", "256")
	grown("after a seed from an archive")

	for _, args := range [][]string{{"export", fork, "hole", "--output"}, {"export", from, "hole", "--output"}, {"cp", id + ":copied"}, {"cp", id + ":pushed/hole"}} {
		to := filepath.Join(t.TempDir(), "hole")
		p.must(append(append([]string{"workspace"}, args...), to)...)
		if out, err := exec.Command("cmp", hole, to).CombinedOutput(); err != nil {
			t.Errorf("%s: %s, %v", args, out, err)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(to, &st); err != nil || st.Blocks*512 > few {
			t.Errorf("%s: it occupies %d bytes, %v", args, st.Blocks*512, err)
		}
	}
}
