//go:build machine

package gvisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// changers is a Python program. Each of its functions changes a file in a different way, and checks
// that everything in the machine sees the change. The argument of a function is the path of its own
// file, which has the content "0123456789\n".
const changers = `import errno, fcntl, mmap, os, subprocess, sys
def read(fd): return os.pread(fd, 100, 0)
def same(got, want):
	if got != want: raise AssertionError("got %r, want %r" % (got, want))
def refused(code, call, *args):
	try: call(*args)
	except OSError as e: return same(e.errno, code)
	raise AssertionError("allowed")
def view(path):
	fd = os.open(path, os.O_RDONLY)
	return fd, mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
def written(path):
	fd, m = view(path)
	same(m[:4], b"0123")
	before = os.fstat(fd)
	with open(path, "r+b", 0) as f:
		f.write(b"ab")
		same(m[:4], b"ab23"); same(read(fd), b"ab23456789\n")
		f.write(b"c")
	same(m[:4], b"abc3"); same(read(fd), b"abc3456789\n")
	after = os.stat(path)
	same(after.st_ino, before.st_ino); same(after.st_ino, os.fstat(fd).st_ino); same(after.st_nlink, 1)
	same([e.inode() for e in os.scandir(os.path.dirname(path)) if e.path == path], [before.st_ino])
def appended(path):
	fd, m = view(path)
	with open(path, "ab", 0) as f: f.write(b"more\n")
	same(read(fd), b"0123456789\nmore\n"); same(os.fstat(fd).st_size, 16)
def emptied(path):
	fd, m = view(path)
	open(path, "wb").close()
	same(read(fd), b""); same(os.stat(path).st_size, 0)
def emptied_for_reading(path):
	fd = os.open(path, os.O_RDONLY)
	os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))
	same(read(fd), b"")
def truncated(path):
	fd, m = view(path)
	os.truncate(path, 3)
	same(read(fd), b"012"); same(os.fstat(fd).st_size, 3)
	os.truncate(path, 5)
	same(read(fd), b"012\0\0"); same(m[:5], b"012\0\0")
def mapped(path):
	fd, m = view(path)
	w = os.open(path, os.O_RDWR)
	n = mmap.mmap(w, 0)
	n[0:2] = b"xy"
	same(m[:3], b"xy2"); same(read(fd), b"xy23456789\n")
	os.close(w); n[2:3] = b"z"
	same(read(fd), b"xyz3456789\n")
def partly_mapped(path):
	with open(path, "r+b", 0) as f:
		f.truncate(8192)
		private = mmap.mmap(f.fileno(), 8192, mmap.MAP_PRIVATE)
		private[5000:5003] = b"own"
		part = mmap.mmap(f.fileno(), 4096)
		same(private[5000:5003], b"own"); same(part[:3], b"012")
def allocated(path):
	with open(path, "r+b") as f: os.posix_fallocate(f.fileno(), 0, 8192)
	same(os.stat(path).st_size, 8192)
def mode(path):
	fd = os.open(path, os.O_RDONLY)
	os.fchmod(fd, 0o640)
	same(os.stat(path).st_mode & 0o7777, 0o640); same(os.fstat(fd).st_mode & 0o7777, 0o640)
	with open(path, "r+b", 0) as f: f.write(b"M")
	same(read(fd), b"M123456789\n")
def owner(path):
	fd = os.open(path, os.O_RDONLY)
	os.chown(path, 7, 8)
	same((os.fstat(fd).st_uid, os.fstat(fd).st_gid), (7, 8))
def times(path):
	fd = os.open(path, os.O_RDONLY)
	os.utime(path, (1000, 2000))
	same((os.fstat(fd).st_atime, os.fstat(fd).st_mtime), (1000, 2000))
def attributes(path):
	same(sorted(os.listxattr(path)), ["user.kept", "user.old"])
	refused(errno.ENODATA, os.getxattr, path, "user.pyro.shared")
	refused(errno.EPERM, os.setxattr, path, "user.pyro.shared", b"")
	refused(errno.EPERM, os.removexattr, path, "user.pyro.shared")
	os.setxattr(path, "user.new", b"1"); os.removexattr(path, "user.old")
	refused(errno.EPERM, os.setxattr, path, "user.pyro.shared", b"")
	same(sorted(os.listxattr(path)), ["user.kept", "user.new"]); same(os.getxattr(path, "user.kept"), b"k")
def linked(path):
	fd = os.open(path, os.O_RDONLY)
	same(os.stat(path).st_nlink, 1)
	os.link(path, path + "2")
	same(os.stat(path).st_nlink, 2); same(os.stat(path + "2").st_ino, os.stat(path).st_ino)
	same(sorted(os.listxattr(path)), ["user.kept", "user.old"])
	refused(errno.ENODATA, os.getxattr, path, "user.pyro.several-names")
	refused(errno.EPERM, os.setxattr, path, "user.pyro.several-names", b"")
	with open(path + "2", "r+b", 0) as f: f.write(b"L")
	same(read(fd), b"L123456789\n"); same(open(path, "rb").read(), b"L123456789\n")
	os.unlink(path + "2"); same(os.fstat(fd).st_nlink, 1)
def removed(path):
	fd, m = view(path)
	os.unlink(path)
	same(os.fstat(fd).st_nlink, 0)
	w = os.open("/proc/self/fd/%d" % fd, os.O_RDWR)
	os.pwrite(w, b"R", 0)
	same((os.fstat(fd).st_nlink, os.fstat(w).st_nlink), (0, 0))
	same(read(fd), b"R123456789\n"); same(m[:2], b"R1"); same(os.path.exists(path), False)
def removed_mode(path):
	fd = os.open(path, os.O_RDONLY)
	os.unlink(path)
	os.fchmod(fd, 0o600)
	same(os.fstat(fd).st_mode & 0o7777, 0o600); same(read(fd), b"0123456789\n")
def renamed(path):
	fd, m = view(path)
	os.mkdir(path + ".d"); os.rename(path, path + ".d/x"); os.rename(path + ".d", path + ".e")
	with open(path + ".e/x", "r+b", 0) as f: f.write(b"N")
	same(read(fd), b"N123456789\n"); same(m[:2], b"N1")
	os.rename(path + ".e/x", path)
def replaced(path):
	fd, m = view(path)
	with open(path + ".new", "wb") as f: f.write(b"other")
	os.replace(path + ".new", path)
	same((os.fstat(fd).st_nlink, os.stat(path).st_nlink), (0, 1))
	same(read(fd), b"0123456789\n"); same(m[:2], b"01"); same(open(path, "rb").read(), b"other")
def locked(path):
	fd = os.open(path, os.O_RDONLY)
	fcntl.flock(fd, fcntl.LOCK_EX)
	for round in range(2):
		with open(path, "r+b", 0) as f:
			refused(errno.EAGAIN, fcntl.flock, f, fcntl.LOCK_EX | fcntl.LOCK_NB)
			f.write(b"%d" % round)
def executed(path):
	os.chmod(path, 0o755)
	for text in "one", "two":
		with open(path, "w") as f: f.write("#!/bin/sh\necho " + text + "\n")
		same(subprocess.check_output([path]), (text + "\n").encode())
def unchanged(path):
	fd = os.open(path, os.O_RDWR)
	same(read(fd), b"0123456789\n")
	m = mmap.mmap(fd, 0)
	same(m[:4], b"0123")
	same(os.stat(path).st_mtime, 1e9); same(os.stat(path).st_mode & 0o7777, 0o644)
	same(sorted(os.listxattr(path)), ["user.kept", "user.old"])
for name in sys.argv[1:]:
	try: globals()[name](os.path.abspath(name))
	except Exception as e: print("%s: %s: %s" % (name, type(e).__name__, e))
`

// shareAll makes a volume whose files are hard links of marked files in another folder. Both
// folders get a file with each of the names.
func shareAll(t *testing.T, names []string) (base, volume string) {
	t.Helper()
	top := t.TempDir()
	base, volume = filepath.Join(top, "base"), filepath.Join(top, "volume")
	for _, dir := range []string{base, filepath.Join(volume, "files"), filepath.Join(volume, "pending")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		at := filepath.Join(base, name)
		if err := os.WriteFile(at, []byte("0123456789\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"user.kept": "k", "user.old": "o", xattr.Shared: ""} {
			if err := unix.Setxattr(at, key, []byte(value), 0); err != nil {
				t.Skipf("the file system has no attributes: %v", err)
			}
		}
		if err := os.Chtimes(at, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(at, filepath.Join(volume, "files", name)); err != nil {
			t.Fatal(err)
		}
	}
	return base, volume
}

// describeAll describes the files of a folder, with everything that a machine could change.
func describeAll(t *testing.T, folder string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		names := make([]byte, 4096)
		n, err := unix.Llistxattr(path, names)
		if err != nil {
			return err
		}
		attributes := strings.Split(string(bytes.TrimRight(names[:n], "\x00")), "\x00")
		slices.Sort(attributes)
		all = append(all, fmt.Sprintf("%s %o %d %d %d %q %v", path[len(folder):], st.Mode, st.Uid, st.Gid, st.Mtim.Nano(), content, attributes))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// changeWays are the names of the functions in changers.
func changeWays() (all []string) {
	for line := range strings.Lines(changers) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "def "); ok && strings.HasSuffix(name, "(path):") && name != "view(path):" {
			all = append(all, strings.TrimSuffix(name, "(path):"))
		}
	}
	return all
}

// TestSharedFilesNeverChange changes shared files in all ways. The machine must see the same as
// with its own files, and the files of the other folder must not change.
func TestSharedFilesNeverChange(t *testing.T) {
	names := changeWays()
	if len(names) < 19 {
		t.Fatalf("only %v", names)
	}
	base, volume := shareAll(t, names)
	before := describeAll(t, base)
	// left by a killed gofer
	if err := os.WriteFile(filepath.Join(volume, "staged-7"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStored(t, driverIn(t, machinetest.SharedDirs(t)), specOf(t, machinetest.Debian(t)), machine.TreeStorage{Folder: volume})
	s.shell(t, "cat >/tmp/changes.py <<'E'\n"+changers+"\nE\n")
	if got := s.shell(t, "cd "+workspace+" && python3 /tmp/changes.py "+strings.Join(names, " ")); got != "" {
		t.Errorf("inside:\n%s", got)
	}
	if after := describeAll(t, base); !slices.Equal(before, after) {
		t.Errorf("shared files changed:\n%s\nwere:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	for _, line := range describeAll(t, s.files) {
		if strings.Contains(line, xattr.Shared) {
			t.Errorf("still shared: %s", line)
		}
	}
	if left, err := filepath.Glob(filepath.Join(volume, "staged-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
