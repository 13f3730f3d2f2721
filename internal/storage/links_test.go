package storage

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// linkedTest is a folder whose volumes share files.
type linkedTest struct {
	*testing.T
	Folder
}

func (l linkedTest) in(volume []string, name string) string {
	return filepath.Join(l.path(top(volume)), filesFolder, name)
}

func (l linkedTest) inode(volume []string, name string) uint64 {
	l.Helper()
	info, err := os.Lstat(l.in(volume, name))
	check(l, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

// change changes a file as a machine does: a marked file is replaced by a copy without the mark.
func (l linkedTest) change(volume []string, name, text string) {
	l.Helper()
	path := l.in(volume, name)
	if l.marked(volume, name) {
		check(l, os.Remove(path))
	}
	check(l, os.WriteFile(path, []byte(text), 0o640))
}

func (l linkedTest) marked(volume []string, name string) bool {
	_, err := unix.Lgetxattr(l.in(volume, name), xattr.Shared, nil)
	return err == nil
}

func (l linkedTest) has(volume []string, name, want string) {
	l.Helper()
	if b, err := os.ReadFile(l.in(volume, name)); err != nil || string(b) != want {
		l.Errorf("%s/%s has %q, %v, want %q", volume, name, b, err, want)
	}
}

func newLinked(t *testing.T, seed Seed) (linkedTest, store.Disks) {
	l := linkedTest{t, Folder{Path: filepath.Join(t.TempDir(), "one"), Links: true}}
	d, err := l.Create(t.Context(), seed)
	check(t, err)
	if !l.marked(d.Baseline, "a") {
		testenv.Lacks(t, "extended attributes of users on the file system")
	}
	return l, d
}

// TestVolumesShareFiles checks that new volumes and snapshots consist of links, also of changed
// files, and that no change is visible in another volume.
func TestVolumesShareFiles(t *testing.T) {
	ctx := t.Context()
	l, d := newLinked(t, seedOf(map[string]string{"a": "alpha", "d/": "", "d/b": "beta", "d/c": "gamma"}))
	take := func(d store.Disks) store.Disks {
		t.Helper()
		s, err := l.Prepare(ctx, d, false)
		check(t, err)
		check(t, l.Take(ctx, s))
		return s.Disks
	}
	l.change(d.Volume, "a", "changed")
	l.change(d.Volume, "d/c", "begun")
	open, err := os.OpenFile(l.in(d.Volume, "d/c"), os.O_WRONLY, 0)
	check(t, err)
	snapshot := take(d)
	_, err = open.WriteString("ended")
	check(t, errors.Join(err, open.Close()))
	if l.marked(d.Volume, "d/c") {
		t.Error("a file is shared that was open for writing")
	}
	l.has(snapshot.Volume, "d/c", "begun")
	l.has(d.Volume, "d/c", "ended")
	reset, err := l.Reset(ctx, snapshot, d, false)
	check(t, err)
	g := linkedTest{t, l.beside("two")}
	fork, err := g.Fork(ctx, l.Folder, snapshot, false, false)
	check(t, err)
	h := linkedTest{t, l.beside("three")}
	current, err := h.Fork(ctx, l.Folder, d, false, false) // a fork of the current disks of a stopped workspace
	check(t, err)
	for _, of := range []struct {
		linkedTest
		volume  []string
		changed uint64 // inode of the changed file
	}{
		{l, snapshot.Volume, l.inode(snapshot.Volume, "a")}, {l, reset.Volume, l.inode(snapshot.Volume, "a")}, {g, fork.Volume, l.inode(snapshot.Volume, "a")},
		{g, fork.Baseline, l.inode(snapshot.Volume, "a")}, {l, d.Volume, l.inode(snapshot.Volume, "a")}, {h, current.Volume, h.inode(current.Baseline, "a")},
		{h, current.Baseline, l.inode(snapshot.Volume, "a")},
	} {
		if of.inode(of.volume, "d/b") != l.inode(d.Baseline, "d/b") || of.inode(of.volume, "a") != of.changed || !of.marked(of.volume, "a") {
			t.Errorf("%s does not share its files", of.volume)
		}
		of.has(of.volume, "a", "changed")
	}
	if h.inode(current.Volume, "d/c") != l.inode(d.Volume, "d/c") { // it is closed now
		t.Error("d/c is not shared")
	}
	for i, of := range []linkedTest{l, g, h} {
		of.change([][]string{reset.Volume, fork.Volume, current.Volume}[i], "d/b", "other")
		of.change([][]string{reset.Volume, fork.Volume, current.Volume}[i], "a", "other")
	}
	l.has(d.Baseline, "a", "alpha")
	for _, volume := range [][]string{d.Baseline, d.Volume, snapshot.Volume} {
		l.has(volume, "d/b", "beta")
	}
	l.has(d.Volume, "a", "changed")
	l.has(snapshot.Volume, "a", "changed")
	g.has(fork.Baseline, "a", "changed")
	h.has(current.Baseline, "a", "changed")
}

// TestSharedFileHasOneName checks that a marked file never gets two names in one tree: neither by
// hard links in a seed, nor if a machine renames a file and makes an equal one in its place.
func TestSharedFileHasOneName(t *testing.T) {
	l, d := newLinked(t, func(_ context.Context, to io.Writer) error {
		w := tar.NewWriter(to)
		for _, h := range []tar.Header{{Name: "a", Size: 5}, {Name: "one", Size: 5, Mode: 0o400}, {Name: "two", Typeflag: tar.TypeLink, Linkname: "one"}} {
			if err := w.WriteHeader(&h); err != nil {
				return err
			}
			if _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); err != nil {
				return err
			}
		}
		return w.Close()
	})
	if l.marked(d.Baseline, "one") || l.inode(d.Baseline, "one") != l.inode(d.Baseline, "two") || l.inode(d.Volume, "one") != l.inode(d.Volume, "two") ||
		l.inode(d.Volume, "one") == l.inode(d.Baseline, "one") {
		t.Error("hard links of a seed must be copied together")
	}
	info, err := os.Lstat(l.in(d.Volume, "a"))
	check(t, err)
	check(t, os.Rename(l.in(d.Volume, "a"), l.in(d.Volume, "b")))
	l.change(d.Volume, "a", "xxxxx")
	check(t, os.Chmod(l.in(d.Volume, "a"), info.Mode()))
	check(t, os.Chtimes(l.in(d.Volume, "a"), info.ModTime(), info.ModTime()))
	s, err := l.Prepare(t.Context(), d, false)
	check(t, err)
	check(t, l.Take(t.Context(), s))
	if l.inode(s.Disks.Volume, "a") == l.inode(s.Disks.Volume, "b") {
		t.Error("two files of the volume became one")
	}
	reset, err := l.Reset(t.Context(), s.Disks, d, false)
	check(t, err)
	l.change(reset.Volume, "one", "yyyyy")
	l.has(reset.Volume, "two", "yyyyy")
	l.has(s.Disks.Volume, "two", "xxxxx")
}
