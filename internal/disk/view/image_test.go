package view

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// put is a file in an image.
type put struct {
	name    string
	mode    uint32
	content string // or link target
	device  uint64
	owner   uint32
	xattrs  map[string]string
	link    string // hard link to this file
}

var when = time.Unix(1_600_000_000, 123_456_789)

// image creates an ext4 image that contains files.
func image(t testing.TB, files ...put) *ext4.FS {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w, err := mkext4.New(f, mkext4.Identity{Made: when}, mkext4.Size)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range files {
		e := mkext4.Entry{
			Mode: p.mode, UID: p.owner, GID: p.owner + 1, Device: p.device, Xattrs: p.xattrs,
			Accessed: when.Add(time.Duration(i) * time.Hour), Modified: when.Add(time.Duration(i)), Changed: when.Add(time.Duration(i) * time.Minute),
		}
		switch {
		case p.link != "":
			err = w.Link(p.name, p.link)
		case p.mode&unix.S_IFMT == unix.S_IFLNK:
			e.Target = p.content
			err = w.Add(p.name, e, nil)
		default:
			e.Size = int64(len(p.content))
			err = w.Add(p.name, e, strings.NewReader(p.content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return opened(t, f.Name())
}

func opened(t testing.TB, path string) *ext4.FS {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fsys, err := ext4.OpenFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

const (
	dir = unix.S_IFDIR
	reg = unix.S_IFREG
	lnk = unix.S_IFLNK
	chr = unix.S_IFCHR
)

const capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// root creates an environment image with one file of every kind.
func root(t testing.TB) *ext4.FS {
	return image(t,
		put{name: ".", mode: dir | 0o755}, put{name: "bin", mode: dir | 0o711},
		put{name: "bin/tool", mode: reg | 0o4755, content: strings.Repeat("tool", 5000), owner: 7, xattrs: map[string]string{"security.capability": capability, "user.note": strings.Repeat("n", 300)}},
		put{name: "bin/again", link: "bin/tool"}, put{name: "bin/short", mode: lnk | 0o777, content: "tool"}, put{name: "out", mode: lnk | 0o777, content: "/etc/../../../x"},
		put{name: "dev/null", mode: chr | 0o666, device: unix.Mkdev(1, 3)}, put{name: "dev/sda", mode: unix.S_IFBLK | 0o660, device: unix.Mkdev(259, 0x12345)},
		put{name: "dev/pipe", mode: unix.S_IFIFO | 0o600}, put{name: "dev/socket", mode: unix.S_IFSOCK | 0o755},
		put{name: "etc/conf", mode: reg | 0o644, content: "old"}, put{name: "etc/gone", mode: reg | 0o644, content: "gone"}, put{name: "etc/sub", mode: dir | 0o755, xattrs: map[string]string{
			"system.posix_acl_access": stored(owner(7), user(5, 1<<31), group(5), mask(5), others(5)), "system.posix_acl_default": stored(owner(7), user(7, 0), group(0), mask(7), others(0)),
		}},
		put{name: "etc/sub/deep/file", mode: reg | 0o600, content: "deep"},
		put{name: "workspace", mode: dir | 0o700}, put{name: "workspace/hidden", mode: reg | 0o600, content: "hidden"}, put{name: "workspaces", mode: reg | 0o600, content: "near"},
		put{name: "not\xffutf8", mode: reg | 0o600, content: "bytes"},
	)
}

// volume creates an image of a volume and returns the tree of the volume's files.
func volume(t testing.TB) Tree {
	return Subtree(image(t,
		put{name: "files", mode: dir | 0o1777, owner: 1000}, put{name: "pending", mode: dir | 0o700}, put{name: "pending/secret", mode: reg | 0o600, content: "never shown"},
		put{name: "files/a", mode: reg | 0o644, content: "volume"}, put{name: "files/b", link: "files/a"}, put{name: "files/sub/empty", mode: dir | 0o755},
		put{name: "files/holes", mode: reg | 0o644, content: "x" + strings.Repeat("\x00", 5<<20) + "y"}, put{name: "files/up", mode: lnk | 0o777, content: "../pending/secret"},
		put{name: "files/日本/ümläut", mode: reg | 0o644, content: "wide"}, put{name: "files/" + strings.Repeat("n", 255), mode: reg | 0o644},
	), "files")
}

// listing describes every file of a tree, including its hard links. The descriptions contain no
// inode numbers.
func listing(t *testing.T, tree Tree) (lines []string) {
	t.Helper()
	first := map[[2]uint64]string{}
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := tree.Lstat(name)
		if err != nil {
			return err
		}
		st := *info.Sys().(*syscall.Stat_t)
		id := [2]uint64{st.Dev, st.Ino}
		if first[id] == "" {
			first[id] = name
		}
		if listed, err := e.Info(); err != nil || name != "." && fs.FormatFileInfo(listed) != fs.FormatFileInfo(info) || listed.Sys().(*syscall.Stat_t).Dev != st.Dev || e.Type() != info.Mode().Type() {
			t.Errorf("%q: %v, and in its folder %v, %v", name, info, listed, err)
		}
		if name != "." && info.Name() != path.Base(name) || info.Mode() != fileMode(st.Mode) && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			t.Errorf("%q: is %v", name, fs.FormatFileInfo(info))
		}
		size := info.Size()
		if info.IsDir() {
			size, st.Nlink = 0, 0
		}
		attributes, err := tree.Xattrs(name)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %o %d:%d dev %d size %d links %d of %q times %v %v %v %q", name, st.Mode, st.Uid, st.Gid, st.Rdev, size, st.Nlink, first[id], st.Atim, st.Mtim, st.Ctim, attributes)
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := tree.ReadLink(name)
			if err != nil {
				return err
			}
			line += " to " + target
		case e.Type().IsRegular():
			f, err := tree.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sum.Sum(nil))
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	for _, line := range got {
		if _, found := slices.BinarySearch(want, line); !found {
			t.Errorf("is there: %s", line)
		}
	}
	for _, line := range want {
		if _, found := slices.BinarySearch(got, line); !found {
			t.Errorf("is missing: %s", line)
		}
	}
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(testenv.NeedsTool(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
