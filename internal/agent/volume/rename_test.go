package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// renames is a tree for tests of Rename. It is in the folder base, next to the folder outside.
type renames struct {
	t    *testing.T
	base string
	root int
}

func newRenames(t *testing.T) *renames {
	t.Helper()
	r := &renames{t: t, base: t.TempDir()}
	r.check(os.MkdirAll(r.base+"/root/folder/below", 0o750))
	r.check(os.MkdirAll(r.base+"/root/empty", 0o755))
	r.check(os.Mkdir(r.base+"/outside", 0o755))
	for _, name := range []string{"root/file", "root/folder/below/file", "outside/file"} {
		r.check(os.WriteFile(filepath.Join(r.base, name), []byte(name), 0o640))
	}
	for name, target := range map[string]string{"link": "file", "dangling": "none", "out": "../outside", "to-folder": "folder"} {
		r.check(os.Symlink(target, filepath.Join(r.base, "root", name)))
	}
	root, err := unix.Open(r.base+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	r.check(err)
	t.Cleanup(func() { unix.Close(root) })
	r.root = root
	return r
}

func (r *renames) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// tree returns the paths below base, with the content of files and the targets of links.
func (r *renames) tree() string {
	r.t.Helper()
	var all []string
	r.check(filepath.WalkDir(r.base, func(path string, e fs.DirEntry, err error) error {
		line := strings.TrimPrefix(path, r.base)
		switch e.Type() {
		case fs.ModeSymlink:
			target, _ := os.Readlink(path)
			line += " -> " + target
		case 0:
			content, _ := os.ReadFile(path)
			line += ": " + string(content)
		}
		all = append(all, line)
		return err
	}))
	return strings.Join(all, "\n")
}

// TestRename checks renames with and without the support of the file system.
func TestRename(t *testing.T) {
	for name, move := range map[string]func(int, string, int, string) error{"free": moveToFree, "reserved": moveToReserved} {
		t.Run(name, func(t *testing.T) {
			testRenames(t, move)
			testRenameRefusals(t, move)
		})
	}
}

// testRenames moves files, folders and links, and compares the tree before and after.
func testRenames(t *testing.T, move func(int, string, int, string) error) {
	for name, c := range map[string]struct {
		from, to string
		moved    map[string]string // the changed parts of the tree
	}{
		"a file":                         {"/file", "/new", map[string]string{"/root/file: ": "/root/new: "}},
		"a file into a folder":           {"/file", "/empty/new", map[string]string{"/root/file: ": "/root/empty/new: "}},
		"a folder with content":          {"/folder", "/empty/folder", map[string]string{"/root/folder": "/root/empty/folder"}},
		"a link and not its target":      {"/link", "/new", map[string]string{"/root/link ->": "/root/new ->"}},
		"a link to nothing":              {"/dangling", "/new", map[string]string{"/root/dangling ->": "/root/new ->"}},
		"below a link to a folder":       {"/to-folder/below/file", "/to-folder/new", map[string]string{"/root/folder/below/file:": "/root/folder/new:"}},
		"a longer name of one's own":     {"/folder", "/folder2", map[string]string{"/root/folder": "/root/folder2"}},
		"a path that leaves and returns": {"/file", "/folder/../../../new", map[string]string{"/root/file: ": "/root/new: "}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRenames(t)
			want := map[string]bool{}
			for line := range strings.SplitSeq(r.tree(), "\n") {
				for old, now := range c.moved {
					if rest, ok := strings.CutPrefix(line, old); ok {
						line = now + rest
					}
				}
				want[line] = true
			}
			r.check(rename(r.root, c.from, c.to, move))
			for line := range strings.SplitSeq(r.tree(), "\n") {
				if !want[line] {
					t.Errorf("there is %q", line)
				}
				delete(want, line)
			}
			for line := range want {
				t.Errorf("there is no %q", line)
			}
			if err := rename(r.root, c.from, "/else", move); !errors.Is(err, unix.ENOENT) {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// testRenameRefusals checks the errors of renames that must not change anything.
func testRenameRefusals(t *testing.T, move func(int, string, int, string) error) {
	r := newRenames(t)
	before := r.tree()
	for name, c := range map[string]struct {
		from, to string
		want     error
		about    string // the path of an OperationError
	}{
		"onto a file":                {"/folder/below/file", "/file", ErrExists, "/file"},
		"onto an empty folder":       {"/folder", "/empty", ErrExists, "/empty"},
		"a file onto a folder":       {"/file", "/folder", ErrExists, "/folder"},
		"onto a link":                {"/file", "/link", ErrExists, "/link"},
		"onto a link to nothing":     {"/file", "/dangling", ErrExists, "/dangling"},
		"onto itself":                {"/file", "/file", ErrExists, "/file"},
		"a folder onto itself":       {"/folder", "/folder", ErrExists, "/folder"},
		"nothing":                    {"/none", "/new", unix.ENOENT, ""},
		"nothing onto a file":        {"/none", "/file", unix.ENOENT, ""},
		"in no folder":               {"/none/file", "/new", unix.ENOENT, ""},
		"below a file":               {"/file/x", "/new", unix.ENOTDIR, ""},
		"to no folder":               {"/file", "/none/deep/new", unix.ENOENT, "/none/deep"},
		"to below a file":            {"/folder", "/file/x", ErrNoFolder, ""},
		"into itself":                {"/folder", "/folder/below/new", ErrIntoItself, ""},
		"into itself through a link": {"/folder", "/to-folder/below/new", unix.EINVAL, ""},
		"from outside":               {"/out/file", "/new", unix.ENOENT, ""},
		"to outside":                 {"/file", "/out/new", unix.ENOENT, "/out"},
		"to another file system":     {"/file", "/proc/new", unix.ENOENT, "/proc"},
	} {
		err := rename(r.root, c.from, c.to, move)
		var about *OperationError
		if !errors.Is(err, c.want) || errors.As(err, &about) != (c.about != "") || c.about != "" && about.Path != c.about {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := r.tree(); after != before {
		t.Errorf("the tree was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// TestRenameAcrossFileSystems checks that a rename to another file system is refused.
func TestRenameAcrossFileSystems(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "pyro-test-")
	if err != nil {
		testenv.Lacks(t, "another file system: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	file := filepath.Join(t.TempDir(), "file")
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err = errors.Join(err, os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for _, move := range []func(int, string, int, string) error{moveToFree, moveToReserved} {
		if err := rename(root, file, other+"/new", move); !errors.Is(err, ErrOtherFS) {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(other); len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
}
