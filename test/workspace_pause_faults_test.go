//go:build machine

package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// memories returns the paths of a workspace's saved states. There must be at most one.
func (p *program) memories(id string) []string {
	all, _ := filepath.Glob(filepath.Join(p.state, "workspaces", id, "disks", "memory-*"))
	return all
}

// TestFullDiskWhilePausing checks that a machine continues to run if the disk has no space to save
// it.
func TestFullDiskWhilePausing(t *testing.T) {
	p := newProgram(t)
	if err := unix.Mount("pyro-test", p.state, "tmpfs", 0, "size=900m"); err != nil {
		testenv.Lacks(t, "only root can mount a small disk: ", err)
	}
	defer func() {
		err := unix.Unmount(p.state, 0)
		for began := time.Now(); err != nil && time.Since(began) < patience; err = unix.Unmount(p.state, 0) {
			time.Sleep(10 * time.Millisecond) // a process can seem to have ended while its threads still free memory
		}
		if err != nil {
			t.Error(err)
		}
	}()
	id := p.create("--mem-mib", "512")
	defer func() { // the disk is busy until the processes have ended
		supervisor, m := p.processes(id)
		p.must("workspace", "delete", id)
		if err := errors.Join(gone(supervisor), gone(m)); err != nil {
			t.Error(err)
		}
	}()
	p.shell(id, `setsid python3 -c 'import os, time; x = os.urandom(120 << 20); open("/run/filled", "w"); time.sleep(1e9)' >/dev/null 2>&1 </dev/null &
		while ! test -e /run/filled; do sleep 0.1; done; sync`)
	shell := p.openShell(id)
	for _, room := range []uint64{4 << 20, 60 << 20} {
		ballast := filepath.Join(p.state, "ballast")
		leave(t, ballast, room)
		supervisor, m := p.processes(id)
		r := p.run(nil, "workspace", "pause", id, "--json")
		if r.code == 0 || !strings.Contains(r.stdout+r.stderr, "no space left") || !strings.Contains(r.stdout+r.stderr, `"resource_exhausted"`) {
			t.Errorf("with room for %d: %+v", room, r)
		}
		if s, now := p.processes(id); s != supervisor || now != m || p.stateOf(id) != "started" {
			t.Errorf("with room for %d: it is %s", room, p.stateOf(id))
		}
		if left := p.memories(id); len(left) > 0 {
			t.Errorf("with space for %d: leftovers %v", room, left)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		p.must("workspace", "shell", "write", id, shell, "--input", fmt.Sprint("echo room $((", room, "+1))"))
		p.awaitShell(id, shell, fmt.Sprint("room ", room+1))
	}
	p.pause(id)
	p.must("workspace", "shell", "write", id, shell, "--input", "echo back $((6*7))")
	p.awaitShell(id, shell, "back 42")
}

// leave fills the disk that contains the file, and leaves room bytes free.
func leave(t *testing.T, path string, room uint64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := int64(0); ; {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		free := s.Bavail * uint64(s.Bsize)
		if free <= room {
			return
		}
		size := int64(min(free-room, 16<<20))
		if err := unix.Fallocate(int(f.Fd()), 0, at, size); err != nil {
			t.Fatal(err)
		}
		at += size
	}
}

// inBlocks lists the files of a saved machine that are verified in blocks. For these files, the
// damaged block is reported. The other files are small or belong to a template. They are verified
// as a whole.
var inBlocks = []string{"memory", "devices", "state", "index", "pages"}

// TestDamagedMemory damages each file of a saved state in several ways. Resuming must fail and
// report the damage. After a repair, resuming must succeed. Without a repair, the files must remain
// available.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--mem-mib", "512")
	p.openShell(id)
	p.shell(id, "echo kept >kept; echo kept >/root/kept; "+counting)
	p.pause(id)
	inMemory := p.object("workspace", "status", id)["isolation"] == "gvisor" // changes to the root file system are part of the saved state
	memory := p.memories(id)[0]
	entries, err := os.ReadDir(memory)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(memory); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users can access it: %v, %v", info, err)
	}
	refused := func(what, said string) {
		t.Helper()
		r := p.run(nil, "workspace", "resume", id, "--json")
		var reported struct {
			Error struct{ Kind, Message, Hint string }
		}
		if json.Unmarshal([]byte(r.stdout+r.stderr), &reported) != nil || r.code == 0 || reported.Error.Kind != "corrupt" || !strings.Contains(reported.Error.Hint, "pyro workspace stop "+id) {
			t.Errorf("%s: %+v", what, r)
		}
		if !strings.Contains(reported.Error.Message, said) {
			t.Errorf("%s: reported as %q, not as %q", what, reported.Error.Message, said)
		}
		if p.stateOf(id) != "paused" {
			t.Fatalf("%s: it is %s", what, p.stateOf(id))
		}
	}
	named := 0
	for _, e := range entries {
		path := filepath.Join(memory, e.Name())
		info, err := e.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 && e.Name() != "ram" {
			t.Errorf("other users can read %s: %v, %v", e.Name(), info, err)
		}
		write := func(content []byte) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			os.Chmod(path, info.Mode().Perm())
		}
		content, err := os.ReadFile(path)
		if err != nil || os.Remove(path) != nil { // the file can be a hard link to a shared file
			t.Fatal(err)
		}
		refused(e.Name()+" is gone", e.Name())
		if len(content) > 0 {
			flipped, at := slices.Clone(content), len(content)*2/3
			flipped[at] ^= 4
			write(flipped)
			damaged := e.Name() + " is damaged"
			if slices.Contains(inBlocks, e.Name()) {
				damaged += fmt.Sprintf(": block %d, the MiB at %#x, has another checksum", at>>20, at>>20<<20)
				named++
			}
			refused(e.Name()+" has another bit", damaged)
			write(content[:len(content)/2])
			refused(e.Name()+" is cut", e.Name()+" is damaged")
		}
		write(content)
	}
	if named < 2 {
		t.Errorf("got fewer than 2 of %v with checksums of blocks", entries)
	}
	last := p.counted(id, "after it was put right")
	p.countsOn(id, last, "after it was put right")
	p.shell(id, "sync")
	p.pause(id)
	flip := filepath.Join(p.memories(id)[0], "checkpoint.json")
	if err := os.WriteFile(flip, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := p.run(nil, "workspace", "exec", id, "--", "true"); r.code != 125 || !strings.Contains(r.stderr, "pyro: hint: pyro workspace stop "+id) ||
		strings.Contains(r.stderr, "loses running programs and all other changes") != inMemory {
		t.Errorf("an operation on a damaged one: %+v", r)
	}
	w := p.object("workspace", "stop", id)
	if reason, _ := w["state_reason"].(string); w["state"] != "stopped" || strings.Contains(reason, "/workspace is kept, and everything else is as it was at the last stop") != inMemory {
		t.Errorf("%v", w)
	}
	if left := p.memories(id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	p.must("workspace", "start", id)
	if got := strings.TrimSpace(p.shell(id, "test -e /root/kept && echo kept || echo lost")); (got == "lost") != inMemory {
		t.Errorf("changes of the root: got %s", got)
	}
	if got := p.shell(id, "cat kept; tail -n 1 count"); !strings.HasPrefix(got, "kept\n") {
		t.Errorf("its files say %q", got)
	} else if n, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(got), "kept\n")); n <= last {
		t.Errorf("counted to %d, and to more than %d when it was paused", n, last)
	}
}
