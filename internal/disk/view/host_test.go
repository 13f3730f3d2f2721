package view

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// hostFolder creates a directory, files next to it, and links in the directory to these files.
func hostFolder(t *testing.T) (path string, tree Tree) {
	t.Helper()
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, "folder", name) }
	if err := errors.Join(
		os.MkdirAll(in("sub/deep"), 0o755), os.WriteFile(in("a"), []byte("a"), 0o644), os.WriteFile(in("sub/b"), []byte("b"), 0o600), os.Link(in("a"), in("sub/also-a")),
		os.WriteFile(filepath.Join(top, "outside"), []byte("outside"), 0o644), os.Symlink("../outside", in("out")), os.Symlink("/etc/passwd", in("passwd")),
		os.Symlink("sub", in("inside")), os.Symlink("..", in("sub/up")), unix.Mkfifo(in("pipe"), 0o600), os.WriteFile(in("not\xffutf8"), []byte("odd"), 0o644),
		os.WriteFile(in("holes"), nil, 0o644), os.Truncate(in("holes"), 10<<20),
	); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenRoot(filepath.Join(top, "folder"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return filepath.Join(top, "folder"), Folder(r)
}

func TestHostFolder(t *testing.T) {
	path, tree := hostFolder(t)
	if got := names(t, tree, "."); got != "a holes inside not\xffutf8 out passwd pipe sub" {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]error{
		"a": nil, "sub/b": nil, "pipe": nil, "sub": nil, ".": nil, "not\xffutf8": nil, "out": ErrSymlink, "passwd": ErrSymlink, "inside": ErrSymlink, "inside/b": ErrSymlink,
		"sub/up": ErrSymlink, "sub/up/a": ErrSymlink, "a/x": syscall.ENOTDIR, "none": fs.ErrNotExist, "../outside": fs.ErrInvalid, "/etc/passwd": fs.ErrInvalid, "sub/../a": fs.ErrInvalid, "": fs.ErrInvalid,
	} {
		f, err := tree.Open(name)
		var in *fs.PathError
		if !errors.Is(err, want) || err != nil && (!errors.As(err, &in) || in.Path != name) {
			t.Errorf("open %q: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		if _, err := tree.ReadDir(name); want == ErrSymlink && !errors.Is(err, ErrSymlink) {
			t.Errorf("list %q: %v", name, err)
		}
	}
	if target, err := tree.ReadLink("passwd"); target != "/etc/passwd" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	if _, err := tree.ReadLink("a"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if lines := listing(t, tree); len(lines) != 13 || !strings.Contains(strings.Join(lines, "\n"), `links 2 of "a"`) {
		t.Errorf("%d files", len(lines))
	}
	if err := os.RemoveAll(filepath.Join(path, "inside")); err != nil {
		t.Fatal(err)
	}
}

func TestHostFolderIsFileSystem(t *testing.T) {
	path, tree := hostFolder(t)
	for _, name := range []string{"out", "passwd", "inside", "sub/up", "not\xffutf8", "holes"} { // fstest.TestFS would follow these links, can't name the file, or would take long
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fstest.TestFS(tree, "a", "sub/b", "pipe"); err != nil {
		t.Error(err)
	}
}

func TestAttributesOfTheHost(t *testing.T) {
	path, tree := hostFolder(t)
	if err := unix.Setxattr(filepath.Join(path, "a"), "user.note", []byte("n\x00"), 0); err != nil {
		testenv.Lacks(t, err)
	}
	if err := unix.Setxattr(filepath.Join(path, "sub"), "user.empty", nil, 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]string{"a": {"user.note": "n\x00"}, "sub/also-a": {"user.note": "n\x00"}, "sub": {"user.empty": ""}, "pipe": nil, "out": nil, "sub/b": nil} {
		if got, err := tree.Xattrs(name); err != nil || len(got) != len(want) {
			t.Errorf("%s: %q, %v", name, got, err)
		} else {
			for key, value := range want {
				if v, found := got[key]; !found || v != value {
					t.Errorf("%s: %q", name, got)
				}
			}
		}
	}
}
