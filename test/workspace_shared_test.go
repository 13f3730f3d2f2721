//go:build machine

package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// randomChanges is a Python program that makes the same random changes in a folder of /workspace
// and in a model of it in memory. Both must always have the same files with the same times. Some
// files stay open or mapped during the changes. The arguments are the seed and the number of
// changes.
const randomChanges = `import hashlib, mmap, os, random, shutil, subprocess, sys
r = random.Random(int(sys.argv[1]))
real, model = "/workspace/tree", "/dev/shm/model"
shutil.rmtree(model, ignore_errors=True); subprocess.check_call(["cp", "-a", real, model]) # with hard links
opened = []
def both(call, *args): return [call(os.path.join(top, str(args[0])), *args[1:]) for top in (real, model)]
def files(): return sorted(os.path.relpath(os.path.join(d, f), model) for d, _, fs in os.walk(model) for f in fs)
def folders(): return sorted(os.path.relpath(d, model) for d, _, _ in os.walk(model))
def patched(path, at, data):
	with open(path, "r+b", 0) as f: f.seek(at); f.write(data)
def mapped(path, at, data):
	with open(path, "r+b", 0) as f:
		f.truncate(at + len(data))
		with mmap.mmap(f.fileno(), 0) as m: m[at:at + len(data)] = data
def whole(path, data, how):
	with open(path, how) as f: f.write(data)
def owned(path, uid):
	with open(path) as f: os.fchown(f.fileno(), uid, -1)
def look(path):
	fd = os.open(path, os.O_RDONLY)
	size = os.fstat(fd).st_size
	return fd, mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ) if size else None
def content(fd, m):
	size = os.fstat(fd).st_size
	same = os.pread(fd, 1 << 20, 0)
	if m and size: assert m[:min(size, len(m))] == same[:len(m)], "the mapping differs"
	return same, os.fstat(fd).st_mode
def describe(top):
	all = {}
	for d, _, fs in os.walk(top):
		for f in fs:
			p = os.path.join(d, f)
			s = os.stat(p)
			all[os.path.relpath(p, top)] = (hashlib.sha256(open(p, "rb").read()).hexdigest()[:8], s.st_size, oct(s.st_mode), s.st_uid, s.st_nlink, s.st_mtime_ns)
	return all
# written has the inodes of the model whose modification time is a moment of this run. The value is
# False if the change could also leave the time unchanged. All other times must be equal.
written = {}
def inode(name): return os.stat(os.path.join(model, name)).st_ino
def write(certain, call, name, *args):
	both(call, name, *args)
	written[inode(name)] = certain or written.get(inode(name), False)
def set_time(name, at):
	both(lambda p: os.utime(p, (at, at)), name)
	written.pop(inode(name), None)
for n in range(int(sys.argv[2])):
	all = files()
	name, to = r.choice(all), os.path.join(r.choice(folders()), "n%s-%d" % (sys.argv[1], n))
	data, at = bytes(r.choices(b"abcdefgh", k=r.randrange(1, 9000))), r.randrange(0, 5000)
	what = r.randrange(15)
	if what == 0: write(True, patched, name, at, data)
	elif what == 1: write(True, whole, name, data, "wb")
	elif what == 2: write(True, whole, name, data, "ab")
	elif what == 3: write(False, mapped, name, at, data)
	elif what == 4: write(False, os.truncate, name, at)
	elif what == 5: both(os.chmod, name, r.choice([0o600, 0o644, 0o755]))
	elif what == 6: set_time(name, at)
	elif what == 7: both(lambda top: os.link(os.path.join(top, name), os.path.join(top, to)), "")
	elif what == 8:
		other = to if len(all) % 2 else all[0]
		# If both are names of one file, Linux does nothing, but gVisor's tmpfs removes the first name.
		if other == to or inode(other) != inode(name): both(lambda top: os.rename(os.path.join(top, name), os.path.join(top, other)), "")
	elif what == 9 and len(all) > 50: both(os.unlink, name)
	elif what == 10: write(True, whole, to, data, "wb")
	elif what == 11 and len(folders()) < 30: both(os.mkdir, to)
	elif what == 12 and len(opened) < 40: opened.append(both(look, name))
	elif what == 13 and opened:
		a, b = opened.pop(r.randrange(len(opened)))
		got, want = content(*a), content(*b)
		if got != want: sys.exit("change %d: an open file has %r, not %r" % (n, got, want))
	elif what == 14: both(r.choice([owned, lambda path, uid: os.chown(path, uid, -1)]), name, r.randrange(2))
got, want = describe(real), describe(model)
for name in sorted(set(got) | set(want)):
	g, w = got.get(name), want.get(name)
	if g and w and inode(name) in written: # the times of the seed and of set_time are before 2001-09-09
		g, w = g[:-1] + (not written[inode(name)] or g[-1] > 10**18,), w[:-1] + (True,)
	if g != w: sys.exit("%s: %r, not %r" % (name, got.get(name), want.get(name)))
`

// digest prints a digest of all files in /workspace, with their modes and times.
const digest = `cd /workspace && find . -type f -printf '%p %m %s %T@\n' | LC_ALL=C sort >/tmp/all && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >>/tmp/all && sha256sum </tmp/all`

// TestRandomChangesOfSharedFiles makes random changes in workspaces that share files, while other
// workspaces are forked and reset. No change can be seen in another workspace, in a snapshot or in
// a baseline.
func TestRandomChangesOfSharedFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		sameForAll(t)
	}
	p := workspaces(t)
	seed := t.TempDir()
	for i := range 120 {
		dir := filepath.Join(seed, "tree", fmt.Sprint(i%10))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		name, old := filepath.Join(dir, fmt.Sprint(i)), time.Unix(int64(i), int64(i))
		err := os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), i*i/10)), 0o644)
		if err = errors.Join(err, os.Chtimes(name, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	fork := func(id string) string {
		t.Helper()
		return strings.Fields(p.must("workspace", "fork", id, "--id-only"))[0]
	}
	source := p.create("--seed-path", seed)
	first := p.shell(source, digest)
	digests := map[string]string{source: first}
	rounds, changes := 3, 1000
	if testing.Short() {
		rounds, changes = 2, 100
	}
	changes = number("PYRO_TEST_CHANGES", changes)
	// change changes files of a workspace. It calls the function during the changes.
	change := func(id string, seed int, meanwhile func()) {
		t.Helper()
		line := fmt.Sprintf("cat >/tmp/changes.py <<'E'\n%s\nE\npython3 /tmp/changes.py %d %d", randomChanges, seed, changes)
		ended := make(chan result, 1)
		go func() { ended <- p.runFor(5*patience, nil, "workspace", "exec", id, "--", "sh", "-c", line) }()
		meanwhile()
		if r := <-ended; r.code != 0 {
			t.Fatalf("seed %d: exit code %d\n%s%s", seed, r.code, r.stdout, r.stderr)
		}
		digests[id] = p.shell(id, digest)
	}
	change(source, 1, func() {})
	p.must("workspace", "snapshot", "create", source, "changed")
	snapshot := digests[source]
	for round := range rounds {
		same, moving := fork(source), ""
		digests[same] = p.shell(same, digest)
		if digests[same] != digests[source] {
			t.Errorf("round %d: the fork has %s, not %s", round, digests[same], digests[source])
		}
		change(source, 10*round+10, func() { moving = fork(source) })
		change(same, 10*round+11, func() { p.must("workspace", "reset", moving) })
		digests[moving] = p.shell(moving, digest)
	}
	for id, want := range digests {
		if got := p.shell(id, digest); got != want {
			t.Errorf("%s has changed: %s, not %s", id, got, want)
		}
	}
	p.must("workspace", "reset", source, "--snapshot", "changed")
	if got := p.shell(source, digest); got != snapshot {
		t.Errorf("the snapshot is %s, not %s", got, snapshot)
	}
	p.must("workspace", "reset", source)
	if got := p.shell(source, digest); got != first {
		t.Errorf("the baseline is %s, not %s", got, first)
	}
}
