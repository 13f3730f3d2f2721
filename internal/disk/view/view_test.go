package view

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func names(t *testing.T, tree Tree, dir string) string {
	t.Helper()
	entries, err := tree.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestRootShowsVolume(t *testing.T) {
	v := New(root(t), volume(t))
	if got := names(t, v, "."); got != "bin dev etc lost+found not\xffutf8 out workspace workspaces" {
		t.Errorf("%q", got)
	}
	if got := names(t, v, "workspace"); got != "a b holes "+strings.Repeat("n", 255)+" sub up 日本" {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]string{"workspace/a": "volume", "workspaces": "near", "etc/conf": "old", "workspace/日本/ümläut": "wide", "not\xffutf8": "bytes"} {
		if got, err := readAll(v, name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]error{
		"workspace/hidden": fs.ErrNotExist, "workspace/pending": fs.ErrNotExist, "workspace/../pending/secret": fs.ErrInvalid, "pending/secret": fs.ErrNotExist,
		"workspace/up": ErrSymlink, "workspace/up/x": ErrSymlink, "workspace/": fs.ErrInvalid, "workspace//a": fs.ErrInvalid, "out": ErrSymlink, "etc/conf/x": syscall.ENOTDIR,
	} {
		_, err := v.Open(name)
		var in *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &in) || in.Path != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	info, err := v.Lstat("workspace")
	if err != nil || info.Name() != "workspace" || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 || info.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Errorf("%v, %v", info, err)
	}
	if target, err := v.ReadLink("workspace/up"); target != "../pending/secret" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	if attributes, err := v.Xattrs("bin/again"); len(attributes) != 2 || attributes["security.capability"] != capability || err != nil {
		t.Errorf("%q, %v", attributes, err)
	}
	if _, err := v.Stat("workspace/up"); !errors.Is(err, ErrSymlink) {
		t.Error(err)
	}
	listing(t, v)
}

func TestRootWithoutVolume(t *testing.T) {
	v := New(root(t), nil)
	if got, err := readAll(v, "workspace/hidden"); got != "hidden" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	same(t, listing(t, v), listing(t, root(t)))
}

func TestRootWithoutMountPoint(t *testing.T) {
	v := New(image(t, put{name: "z", mode: reg, content: "z"}), volume(t))
	if got := names(t, v, "."); got != "lost+found workspace z" {
		t.Errorf("%q", got)
	}
	v = New(image(t, put{name: "workspace", mode: lnk | 0o777, content: "etc"}), volume(t))
	if got := names(t, v, "."); got != "lost+found workspace" {
		t.Errorf("%q", got)
	}
	if got, err := readAll(v, "workspace/a"); got != "volume" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestVolumeIsLink replaces the directory "files" of a volume with a symbolic link. The view must
// not enter that volume.
func TestVolumeIsLink(t *testing.T) {
	v := New(root(t), Subtree(image(t, put{name: "files", mode: lnk | 0o777, content: "/"}), "files"))
	for _, name := range []string{"workspace", "workspace/etc"} {
		if _, err := v.Open(name); !errors.Is(err, ErrSymlink) {
			t.Errorf("%q: %v", name, err)
		}
	}
	v = New(root(t), Subtree(image(t), "files"))
	if _, err := v.ReadDir("."); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFS(t *testing.T) {
	v := New(image(t, put{name: "a/b/c", mode: reg | 0o644, content: "content"}, put{name: "a/pipe", mode: unix.S_IFIFO | 0o600}),
		Subtree(image(t, put{name: "files/d/e", mode: reg | 0o644, content: "more"}, put{name: "files/f", mode: reg | 0o644}), "files"))
	if err := fstest.TestFS(v, "a/b/c", "a/pipe", "workspace/d/e", "workspace/f", "lost+found"); err != nil {
		t.Error(err)
	}
}

func readAll(tree fs.FS, name string) (string, error) {
	f, err := tree.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}
