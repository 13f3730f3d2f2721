package tree

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var isRoot = os.Geteuid() == 0

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(content), 0o600))
	check(t, os.Chmod(path, mode))
}

// fullTreeBytes is the total size of all files that fullTree creates, in bytes.
const fullTreeBytes = 5 + smallFile + 3<<20 + 17 + 2 + 1 + 1 + 1 + 300*299/2 + 16<<20

// fullTree creates a folder with entries of all kinds that the process is allowed to create.
func fullTree(t testing.TB) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "full")
	in := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"a/b/c", "empty", "sticky", "readonly", "ünïcode/日本"} {
		check(t, os.MkdirAll(in(dir), 0o755))
	}
	random := rand.NewChaCha8([32]byte{1})
	bytesOf := func(n int) string {
		b := make([]byte, n)
		random.Read(b)
		return string(b)
	}
	put(t, in("a/f"), "hello", 0o640)
	put(t, in("a/b/small"), bytesOf(smallFile), 0o444)
	put(t, in("a/b/large"), bytesOf(3<<20+17), 0o600)
	put(t, in("a/empty"), "", 0o755)
	put(t, in("a/suid"), "#!", 0o755|os.ModeSetuid|os.ModeSetgid)
	put(t, in("readonly/f"), "x", 0o400)
	put(t, in("not\xffutf8\nwith a line"), "y", 0o644)
	put(t, in(strings.Repeat("n", 255)), "z", 0o644)
	for i := range 300 {
		put(t, in(fmt.Sprintf("a/b/c/%03d", i)), strings.Repeat("c", i), 0o644)
	}
	sparse, err := os.Create(in("sparse"))
	check(t, err)
	check(t, sparse.Truncate(16<<20))
	for _, at := range []int64{1 << 20, 10 << 20} {
		_, err := sparse.WriteAt([]byte(bytesOf(4096)), at)
		check(t, err)
	}
	check(t, sparse.Close())
	check(t, os.Link(in("a/f"), in("a/b/f-too")))
	check(t, os.Link(in("a/f"), in("z-f-three")))
	check(t, os.Symlink("../f", in("a/b/link")))
	check(t, os.Symlink("/etc/passwd", in("out")))
	check(t, os.Symlink(strings.Repeat("t", 4095), in("longlink")))
	check(t, os.Link(in("out"), in("out-too")))
	check(t, unix.Mkfifo(in("fifo"), 0o620))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(t, err)
	short := filepath.Join(os.TempDir(), fmt.Sprintf("s%d", os.Getpid()))
	check(t, unix.Bind(socket, &unix.SockaddrUnix{Name: short}))
	unix.Close(socket)
	check(t, os.Rename(short, in("socket")))
	if err := unix.Setxattr(in("a/f"), "user.note", []byte("kept"), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatal(err)
	}
	unix.Setxattr(in("a/b/small"), "user.big", bytes.Repeat([]byte("v"), 2000), 0)
	unix.Setxattr(in("a/b"), "user.folder", []byte("too"), 0)
	if isRoot {
		check(t, os.Chown(in("a/b/large"), 1234, 70000))
		check(t, os.Lchown(in("out"), 12, 34))
		check(t, os.Chown(in("empty"), 5, 6))
		check(t, unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		check(t, os.Chown(in("a/suid"), 77, 77))
		check(t, os.Chmod(in("a/suid"), 0o755|os.ModeSetuid|os.ModeSetgid))
		capability := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		check(t, unix.Setxattr(in("a/empty"), "security.capability", []byte(capability), 0))
		check(t, unix.Setxattr(in("empty"), "trusted.overlay.opaque", []byte("y"), 0))
	}
	acl := "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\x0c\x00\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x04\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff"
	unix.Setxattr(in("a/b/c/007"), "system.posix_acl_access", []byte(acl), 0)
	check(t, os.Chmod(in("sticky"), 0o777|os.ModeSticky))
	check(t, os.Chmod(in("a/b"), 0o710|os.ModeSetgid))
	check(t, os.Chmod(in("readonly"), 0o555))
	t.Cleanup(func() { os.Chmod(in("readonly"), 0o755) })
	old := time.Unix(1_000_000_000, 123_456_789)
	for _, name := range []string{"a/f", "a", "empty", "readonly", "sparse", "."} {
		check(t, os.Chtimes(in(name), time.Now(), old))
	}
	check(t, unix.UtimesNanoAt(unix.AT_FDCWD, in("out"), []unix.Timespec{{Sec: 1, Nsec: 2}, {Sec: 3, Nsec: 4}}, unix.AT_SYMLINK_NOFOLLOW))
	return top
}

// describe lists all properties that a copy must share with its original.
func describe(t testing.TB, top string) []string {
	t.Helper()
	var all []string
	inodes := map[uint64]string{}
	check(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%q %o %d:%d mtime %d.%09d rdev %d", name, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, st.Rdev)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			first, seen := inodes[st.Ino]
			if !seen {
				inodes[st.Ino] = name
			}
			line += fmt.Sprintf(" size %d links %d with %q", st.Size, st.Nlink, first)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(b))
		case unix.S_IFLNK:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " to " + text
		}
		names := make([]byte, 64<<10)
		if n, err := unix.Llistxattr(path, names); err == nil {
			attributes := strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00")
			slices.Sort(attributes)
			for _, name := range attributes {
				value := make([]byte, 64<<10)
				if n, err := unix.Lgetxattr(path, name, value); err == nil {
					line += fmt.Sprintf(" %s=%q", name, value[:n])
				}
			}
		}
		all = append(all, line)
		return nil
	}))
	return all
}

// same fails the test if the descriptions of two trees differ.
func same(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("got  %s\nwant %s", g, w)
			return
		}
	}
}

func wantKind(t testing.TB, err error, kind fault.Kind, text string) {
	t.Helper()
	if fault.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v of kind %q, want kind %q and text %q", err, fault.KindOf(err), kind, text)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// deep creates nested folders, with a file in the lowest one.
func deep(t testing.TB, top string, levels int) {
	t.Helper()
	at, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range levels {
		check(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(at)
		at = next
	}
	fd, err := unix.Openat(at, "bottom", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	check(t, err)
	unix.Close(fd)
	unix.Close(at)
}

// run runs a program. It skips the test if the program is missing.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	testenv.NeedsTool(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// archiveOf returns a tar archive with the given entries. Every byte of file content is "x".
func archiveOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		check(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

// withChecksums returns a tar archive with corrected header checksums. Without the correction the
// reader rejects nearly all inputs that a fuzzer generates.
func withChecksums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+512 <= len(b); at += 512 {
		header := b[at : at+512]
		if string(header[257:262]) != "ustar" {
			continue
		}
		copy(header[148:], "        ")
		sum := 0
		for _, c := range header {
			sum += int(c)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00", sum))
	}
	return b
}
