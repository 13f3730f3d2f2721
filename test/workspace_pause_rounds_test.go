//go:build machine

package test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// taken contains the resources that a workspace uses on its host.
type taken struct {
	folder, image, layers    int64 // while the workspace is paused: bytes on disk, bytes of the saved state, number of disks
	machine, supervisor      int64 // while the workspace runs: memory in bytes
	pausing, resuming, first time.Duration
}

// rss returns the private memory of a process, in bytes.
func rss(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			bytes += kib << 10
		}
	}
	return bytes
}

// allocated returns the disk space that a folder uses, in bytes.
func allocated(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += blocks(info) * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// TestRoundsOfPauses repeatedly pauses a machine that counts, writes files and uses a terminal. No
// number must be lost or repeated, and the use of resources must not grow.
func TestRoundsOfPauses(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--mem-mib", "512")
	disks := filepath.Join(p.state, "workspaces", id, "disks")
	p.shell(id, counting)
	shell := p.openShell(id, "--env", "PS1=> ")
	rounds := number("PYRO_TEST_PAUSES", 8)
	var all []taken
	counted := 0
	for i := range rounds {
		when := fmt.Sprint("in round ", i)
		// Files on both disks are rewritten in each round, together with their checksums.
		p.shell(id, fmt.Sprintf("for f in /workspace/f%[1]d /root/f%[1]d; do head -c 300000 /dev/urandom >$f; sha256sum $f >$f.sum; done", i%5))
		p.must("workspace", "shell", "write", id, shell, "--input", "n=$((n+1)); echo round $n.")
		now := taken{}
		began := time.Now()
		p.pause(id)
		now.pausing = time.Since(began)
		now.folder = allocated(t, disks)
		images, _ := filepath.Glob(filepath.Join(disks, "memory-*"))
		if len(images) != 1 {
			t.Fatalf("%s: got files %v", when, images)
		}
		now.image = allocated(t, images[0])
		entries, _ := os.ReadDir(disks)
		now.layers = int64(len(entries))
		began = time.Now()
		p.must("workspace", "resume", id)
		now.resuming = time.Since(began)
		p.shell(id, "cat /workspace/*.sum /root/*.sum | sha256sum -c --quiet")
		now.first = time.Since(began)
		counted = p.countsOn(id, counted, when)
		supervisor, m := p.processes(id)
		now.machine, now.supervisor = rss(m), rss(supervisor)
		all = append(all, now)
	}
	seen := p.awaitShell(id, shell, fmt.Sprintf("round %d.", rounds))
	for n := range rounds {
		if strings.Count(seen, fmt.Sprintf("round %d.\n", n+1)) != 1 {
			t.Errorf("round %d of the shell: got it %d times", n+1, strings.Count(seen, fmt.Sprintf("round %d.\n", n+1)))
		}
	}
	third := max(rounds/3, 1)
	mean := func(of func(taken) int64) (first, last int64) {
		for i := range third {
			first += of(all[i]) / int64(third)
			last += of(all[rounds-1-i]) / int64(third)
		}
		return first, last
	}
	for what, of := range map[string]func(taken) int64{
		"the folder's bytes": func(o taken) int64 { return o.folder }, "the image's bytes": func(o taken) int64 { return o.image },
		"the machine's memory": func(o taken) int64 { return o.machine }, "the supervisor's memory": func(o taken) int64 { return o.supervisor },
	} {
		first, last := mean(of)
		t.Logf("%s: %d MiB, then %d MiB", what, first>>20, last>>20)
		if last > first+first/2+(32<<20) {
			t.Errorf("%s: %d in the first third of %d rounds, %d in the last", what, first, rounds, last)
		}
	}
	most := int64(0)
	for _, o := range all {
		most = max(most, o.layers)
	}
	for what, of := range map[string]func(taken) int64{
		"pausing": func(o taken) int64 { return int64(o.pausing) }, "resuming": func(o taken) int64 { return int64(o.resuming) },
		"to the first command's end": func(o taken) int64 { return int64(o.first) },
	} {
		first, last := mean(of)
		t.Logf("%s: %s, then %s", what, time.Duration(first).Round(time.Millisecond), time.Duration(last).Round(time.Millisecond))
	}
	t.Logf("%d rounds, %d numbers, at most %d disks", rounds, counted, most)
	if most > 64 { // two disks, each with the maximum number of layers before layers are merged
		t.Errorf("there are %d disks", most)
	}
}

// blocks returns the number of 512-byte blocks that a file uses.
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks }
