package ext4

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestReadsImagesOfMkfs compares a tree with images that mkfs.ext4 created from it.
func TestReadsImagesOfMkfs(t *testing.T) {
	testenv.NeedsTool(t, "mkfs.ext4")
	tree := fullTree(t)
	for name, options := range map[string][]string{
		"default":           nil,
		"without 64bit":     {"-O", "^64bit"},
		"small inodes":      {"-I", "128"},
		"large inodes":      {"-I", "1024", "-O", "metadata_csum_seed,bigalloc"},
		"small blocks":      {"-b", "1024"},
		"blocks of 64 KiB":  {"-b", "65536"},
		"many small groups": {"-b", "1024", "-g", "2048", "-O", "^flex_bg,^has_journal,^metadata_csum,^dir_index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := makeImage(t, tree, "512M", append([]string{"-N", "8192"}, options...)...)
			fsys := openImage(t, image)
			sameTree(t, fsys, tree)
			sameList(t, fsys, image, "many")
			if depth := depthOfFile(t, fsys, "comb"); depth == 0 && name != "blocks of 64 KiB" {
				t.Error("no extent tree has more than its root")
			}
		})
	}
}

// sameTree compares everything in a host tree with the image. It compares times in whole seconds,
// because that is the precision of mkfs.ext4.
func sameTree(t *testing.T, fsys *FS, tree string) {
	t.Helper()
	want, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	numbers := map[uint64]uint64{} // host inode numbers to image inode numbers
	var names []string
	err = filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		names = append(names, name)
		host, err := want.Lstat(name)
		if err != nil {
			return err
		}
		info, err := fsys.Lstat(name)
		if err != nil {
			return err
		}
		if name == "." && info.IsDir() {
			return nil // mkfs.ext4 creates the root and does not copy its attributes.
		}
		if info.Name() != filepath.Base(name) || info.Mode() != host.Mode() || info.IsDir() != host.IsDir() {
			t.Errorf("%q: is %v, want %v", name, fs.FormatFileInfo(info), fs.FormatFileInfo(host))
		}
		a, b := info.Sys().(*syscall.Stat_t), host.Sys().(*syscall.Stat_t)
		if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev || !host.IsDir() && a.Nlink != b.Nlink || a.Size != info.Size() {
			t.Errorf("%q: is %+v, want %+v", name, a, b)
		}
		if a.Mtim.Sec != b.Mtim.Sec {
			t.Errorf("%q: modified %d, want %d", name, a.Mtim.Sec, b.Mtim.Sec)
		}
		if n, seen := numbers[b.Ino]; seen && n != a.Ino {
			t.Errorf("%q: hard links are separate", name)
		}
		numbers[b.Ino] = a.Ino
		switch {
		case host.Mode().IsDir():
			return nil
		case host.Mode()&fs.ModeSymlink != 0:
			there, err := want.Readlink(name)
			if got, e := fsys.ReadLink(name); got != there || e != nil {
				t.Errorf("%q: leads to %q, want %q: %v", name, got, there, e)
			}
			return err
		}
		if info.Size() != host.Size() {
			t.Errorf("%q: %d bytes, want %d", name, info.Size(), host.Size())
		}
		if host.Mode().IsRegular() && host.Size() < 100<<20 {
			there, err := want.Open(name)
			if err != nil {
				return err
			}
			defer there.Close()
			file, err := fsys.Open(name)
			if err != nil {
				return err
			}
			if got, want := digest(t, file), digest(t, there); got != want {
				t.Errorf("%q: content is %s, want %s", name, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	err = fs.WalkDir(fsys, ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "lost+found" {
			read = append(read, path)
		}
		return err
	})
	slices.Sort(names)
	slices.Sort(read)
	if err != nil || !slices.Equal(read, names) {
		t.Errorf("%d names, want %d: %v", len(read), len(names), err)
	}
}

func digest(t *testing.T, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Error(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func depthOfFile(t *testing.T, fsys *FS, name string) int {
	t.Helper()
	found, err := fsys.lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	depth, err := depthOf(found.root[:])
	if err != nil {
		t.Error(err)
	}
	return depth
}

// sameList compares the content of a directory with the output of debugfs.
func sameList(t *testing.T, fsys *FS, image, dir string) {
	t.Helper()
	var want, got []string
	for line := range strings.Lines(must(t, "debugfs", "-R", "ls -p /"+dir, image)) {
		// /inode/mode/uid/gid/name/size/
		if f := strings.Split(strings.TrimSpace(line), "/"); len(f) == 8 && f[5] != "." && f[5] != ".." {
			want = append(want, strings.Join(f[1:7], " "))
		}
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		got = append(got, fmt.Sprintf("%d %06o %d %d %s %d", st.Ino, st.Mode, st.Uid, st.Gid, e.Name(), st.Size))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(got) < 1000 || !slices.Equal(got, want) {
		t.Errorf("%s: %d files, debugfs lists %d", dir, len(got), len(want))
	}
}

// TestFS runs fstest.TestFS. The tree contains no symbolic links, because opening one is an error
// in this package, as documented.
func TestFS(t *testing.T) {
	tree := t.TempDir()
	for _, dir := range []string{"a/b/c", "empty", "d"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"x", "a/x", "a/b/y", "a/b/c/z", "d/1", "d/2", "d/3"} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(strings.Repeat(name, i*1000)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sparse(t, filepath.Join(tree, "d/sparse"), 100_000, []int64{8192, 65536}, []byte(strings.Repeat("data", 1024)))
	if err := syscall.Mkfifo(filepath.Join(tree, "d/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	fsys := openImage(t, makeImage(t, tree, "2M"))
	if err := fstest.TestFS(fsys, "x", "a/b/c/z", "d/fifo", "lost+found"); err != nil {
		t.Error(err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	tree := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(tree, "dir"), 0o755), os.WriteFile(filepath.Join(tree, "dir/file"), []byte("x"), 0o644),
		os.Symlink("dir", filepath.Join(tree, "link")), os.Symlink("/etc", filepath.Join(tree, "out"))); err != nil {
		t.Fatal(err)
	}
	fsys := openImage(t, makeImage(t, tree, "1M"))
	open := func(name string) error { _, err := fsys.Open(name); return err }
	stat := func(name string) error { _, err := fsys.Stat(name); return err }
	lstat := func(name string) error { _, err := fsys.Lstat(name); return err }
	list := func(name string) error { _, err := fsys.ReadDir(name); return err }
	readLink := func(name string) error { _, err := fsys.ReadLink(name); return err }
	for _, c := range []struct {
		do   func(string) error
		name string
		want error
	}{
		{open, "dir/file", nil}, {open, "link", ErrSymlink}, {open, "link/file", ErrSymlink}, {open, "out/passwd", ErrSymlink},
		{stat, "link", ErrSymlink}, {stat, "dir", nil}, {stat, "link/file", ErrSymlink},
		{lstat, "link", nil}, {lstat, "link/file", ErrSymlink}, {lstat, "dir/file/x", syscall.ENOTDIR}, {lstat, "dir/none", fs.ErrNotExist},
		{list, "link", ErrSymlink}, {list, "dir/file", syscall.ENOTDIR}, {list, "dir", nil}, {list, ".", nil},
		{readLink, "link", nil}, {readLink, "dir", fs.ErrInvalid}, {readLink, "out/x", ErrSymlink},
		{open, "", fs.ErrInvalid}, {open, "/dir", fs.ErrInvalid}, {open, "dir/", fs.ErrInvalid}, {open, "dir/../dir", fs.ErrInvalid}, {open, "./dir", fs.ErrInvalid},
		{open, "../etc/passwd", fs.ErrInvalid}, {open, "dir\x00", fs.ErrNotExist}, {open, strings.Repeat("dir/", 2000), syscall.ENAMETOOLONG},
	} {
		err := c.do(c.name)
		var in *fs.PathError
		if !errors.Is(err, c.want) || err != nil && !errors.As(err, &in) {
			t.Errorf("%q: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestReadsAnywhere compares random reads of a sparse file in an image with the original file.
func TestReadsAnywhere(t *testing.T) {
	tree := t.TempDir()
	const size = 1<<20 + 77
	var at []int64
	for i := range int64(64) {
		at = append(at, i*16384+i%3*1024)
	}
	sparse(t, filepath.Join(tree, "f"), size, at, []byte(strings.Repeat("0123456789abcdef", 300)))
	want, err := os.ReadFile(filepath.Join(tree, "f"))
	if err != nil {
		t.Fatal(err)
	}
	fsys := openImage(t, makeImage(t, tree, "4M", "-b", "1024"))
	file, err := fsys.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	for offset := int64(0); offset < size; offset += 5003 {
		for _, n := range []int{1, 1023, 40_000} {
			got := make([]byte, n)
			read, err := file.(io.ReaderAt).ReadAt(got, offset)
			rest := want[offset:min(size, offset+int64(n))]
			if string(got[:read]) != string(rest) || (err == nil) != (read == n) || err != nil && err != io.EOF {
				t.Fatalf("%d at %d: %d bytes, %v", n, offset, read, err)
			}
		}
	}
}

// TestBlocksNotYetWritten reads a file with preallocated blocks that contain old data of the image.
// These blocks must read as zeros.
func TestBlocksNotYetWritten(t *testing.T) {
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "f"), []byte("begin"), 0o644); err != nil {
		t.Fatal(err)
	}
	image := makeImage(t, tree, "2M")
	raw, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	change(t, image, "fallocate /f 1 99", "set_inode_field /f size 409600")
	if list := must(t, "debugfs", "-R", "ex /f", image); !strings.Contains(list, "Uninit") {
		t.Fatal(list)
	}
	after, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	for i := 512 << 10; i < len(after); i++ { // skip the inodes
		if raw[i] == 0 && after[i] == 0 {
			after[i] = 0xaa
		}
	}
	if err := os.WriteFile(image, after, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := fs.ReadFile(openImage(t, image), "f")
	if err != nil || len(got) != 409600 || strings.Trim(string(got[4096:]), "\x00") != "" || string(got[:5]) != "begin" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
