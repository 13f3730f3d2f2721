package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// tree creates a directory with every kind of entry that an image can contain.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewSource(1))
	noise := func(size int) []byte {
		b := make([]byte, size)
		random.Read(b)
		return b
	}
	write := func(name string, content []byte, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2000 { // several blocks of names
		write(fmt.Sprintf("many/a-rather-long-name-of-a-file-%04d", i), nil, 0o644)
	}
	for _, size := range []int{0, 1, blockSize - 1, blockSize, blockSize + 1, 300 << 10} {
		write(fmt.Sprintf("sizes/%d", size), noise(size), 0o640)
	}
	write("sparse", append(make([]byte, 1<<20), 1), 0o644)
	write("setuid", []byte("x"), 0o755|fs.ModeSetuid)
	write("sticky/file", nil, 0o600)
	write(strings.Repeat("n", maxName), []byte("long"), 0o644)
	write("ümläut 日本 !", []byte("odd"), 0o644)
	write("!first", nil, 0o644) // sorts before "."
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "sticky"), 0o777|fs.ModeSticky), os.MkdirAll(filepath.Join(dir, "a/b/c/d"), 0o700),
		os.Symlink("sizes/1", filepath.Join(dir, "link")), os.Symlink(strings.Repeat("x/", 1000), filepath.Join(dir, "far")),
		os.Link(filepath.Join(dir, "sizes/1"), filepath.Join(dir, "a/second")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Chtimes(filepath.Join(dir, "fifo"), time.Unix(1, 0), time.Unix(1234567890, 123456789)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, from fs.FS) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, from); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReferenceToolsReadImage checks an image with the format's own tools, unpacks it and compares
// the result with the tree.
func TestReferenceToolsReadImage(t *testing.T) {
	testenv.NeedsTool(t, "fsck.erofs")
	dir := tree(t)
	image := write(t, os.DirFS(dir))
	out := filepath.Join(t.TempDir(), "out")
	if said, err := exec.Command("fsck.erofs", "--extract="+out, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	entries := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		entries++
		back := filepath.Join(out, strings.TrimPrefix(path, dir))
		want, _ := os.Lstat(path)
		got, err := os.Lstat(back)
		if err != nil {
			return err
		}
		if got.Mode() != want.Mode()&^fs.ModeSetuid || !got.IsDir() && !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s: %v %v, not %v %v", path, got.Mode(), got.ModTime(), want.Mode(), want.ModTime())
		}
		switch e.Type() {
		case 0:
			a, _ := os.ReadFile(path)
			if b, err := os.ReadFile(back); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: wrote %d bytes, read %d, %v", path, len(a), len(b), err)
			}
		case fs.ModeSymlink:
			a, _ := os.Readlink(path)
			if b, err := os.Readlink(back); a != b {
				t.Errorf("%s: %q, not %q, %v", path, b, a, err)
			}
		}
		return nil
	})
	if err != nil || entries < 2000 {
		t.Errorf("%d entries, %v", entries, err)
	}
	for path, want := range map[string]string{"/a/second": `Links: 2\b`} { // fsck.erofs does not restore hard links
		if said, err := exec.Command("dump.erofs", "--path="+path, image).Output(); err != nil || !regexp.MustCompile(want).Match(said) {
			t.Errorf("%s: %v: %s", path, err, said)
		}
	}
}

func TestEqualTreesGiveEqualImages(t *testing.T) {
	dir := tree(t)
	first, err1 := os.ReadFile(write(t, os.DirFS(dir)))
	second, err2 := os.ReadFile(write(t, os.DirFS(dir)))
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(first, second) {
		t.Errorf("they differ, %v", err)
	}
	if len(first)%blockSize != 0 {
		t.Errorf("%d bytes are not a multiple of the block size: the end can't be mapped", len(first))
	}
}

// TestModes checks modes that the reference tools do not restore or show.
func TestModes(t *testing.T) {
	for from, want := range map[fs.FileMode]uint16{
		0o755 | fs.ModeSetuid: unix.S_IFREG | unix.S_ISUID | 0o755, 0o2: unix.S_IFREG | 0o2, fs.ModeDir | fs.ModeSticky | 0o777: unix.S_IFDIR | unix.S_ISVTX | 0o777,
		fs.ModeSetgid | 0o711: unix.S_IFREG | unix.S_ISGID | 0o711, fs.ModeDevice | 0o600: unix.S_IFBLK | 0o600,
		fs.ModeDevice | fs.ModeCharDevice | 0o666: unix.S_IFCHR | 0o666, fs.ModeSocket: unix.S_IFSOCK,
	} {
		if got := mode(from); got != want {
			t.Errorf("%v: %o, not %o", from, got, want)
		}
	}
	if got := deviceNumber(unix.Mkdev(259, 0x12345)); got != 0x45|259<<8|0x12300<<12 {
		t.Errorf("a device: %x", got)
	}
}

// TestContentHasOwnBlocks checks that even the smallest file has its own block, because gVisor
// can't map data that is stored inline with the inodes.
func TestContentHasOwnBlocks(t *testing.T) {
	image := write(t, fstest.MapFS{"small": {Data: []byte("x"), Mode: 0o644}, "folder/other": {Data: []byte("yy")}})
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"x", "yy"} {
		found := false
		for at := 0; at < len(b); at += blockSize {
			found = found || bytes.HasPrefix(b[at:], append([]byte(content), make([]byte, blockSize-len(content))...))
		}
		if !found {
			t.Errorf("%q is in no block of its own", content)
		}
	}
}

func TestUnsupportedTrees(t *testing.T) {
	for name, from := range map[string]fs.FS{
		"a long name": fstest.MapFS{strings.Repeat("n", maxName+1): {}},
		"a long link": fstest.MapFS{"l": {Data: bytes.Repeat([]byte("x"), blockSize), Mode: fs.ModeSymlink}},
		"no tree":     fstest.MapFS{".": {Data: []byte("a file")}},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(f, from); err == nil {
			t.Errorf("%s: no error", name)
		}
		f.Close()
	}
}
