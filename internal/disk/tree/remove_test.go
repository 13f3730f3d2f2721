package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestRemoveStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	check(t, os.Mkdir(outside, 0o755))
	put(t, filepath.Join(outside, "f"), "x", 0o644)
	top := fullTree(t)
	check(t, os.Symlink(outside, filepath.Join(top, "a/outside")))
	check(t, os.Link(filepath.Join(outside, "f"), filepath.Join(top, "a/hard")))
	before := describe(t, outside)
	check(t, Remove(t.Context(), top))
	if exists(top) {
		t.Errorf("%s still exists", top)
	}
	check(t, Remove(t.Context(), top)) // It succeeds again.
	if after := describe(t, outside); len(after) != len(before) || !exists(filepath.Join(outside, "f")) {
		t.Errorf("files outside changed to %q", after)
	}
}

func TestRemoveSingleFile(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	put(t, in("f"), "x", 0)
	put(t, in("target"), "x", 0o644)
	check(t, os.Symlink("target", in("link")))
	check(t, os.Symlink("none", in("dangling")))
	check(t, unix.Mkfifo(in("fifo"), 0o600))
	check(t, os.Mkdir(in("empty"), 0))
	for _, name := range []string{"f", "link", "dangling", "fifo", "empty", "none/none", "link"} {
		if err := Remove(t.Context(), in(name)); err != nil || exists(in(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !exists(in("target")) {
		t.Error("the target of a link was removed")
	}
	for _, name := range []string{"/", "."} {
		wantKind(t, Remove(t.Context(), name), fault.Invalid, "name")
	}
}

func TestRemoveFoldersWithoutPermission(t *testing.T) {
	for mode := range os.FileMode(8) {
		top := filepath.Join(t.TempDir(), "top")
		check(t, os.MkdirAll(filepath.Join(top, "a/b"), 0o755))
		put(t, filepath.Join(top, "a/b/f"), "x", 0)
		for _, name := range []string{"a/b", "a", "."} {
			check(t, os.Chmod(filepath.Join(top, name), mode<<6))
		}
		if err := Remove(t.Context(), top); err != nil || exists(top) {
			t.Errorf("mode %o: %v", mode<<6, err)
		}
	}
}

func TestRemoveContinuesAfterError(t *testing.T) {
	testenv.NeedsRoot(t, "set the immutable attribute")
	top := filepath.Join(t.TempDir(), "top")
	check(t, os.MkdirAll(filepath.Join(top, "m/a"), 0o755))
	check(t, os.MkdirAll(filepath.Join(top, "z/a"), 0o755))
	put(t, filepath.Join(top, "m/kept"), "x", 0o644)
	put(t, filepath.Join(top, "m/gone"), "x", 0o644)
	run(t, "chattr", "+i", filepath.Join(top, "m/kept"))
	defer run(t, "chattr", "-i", filepath.Join(top, "m/kept"))
	err := Remove(t.Context(), top)
	wantKind(t, err, fault.Permission, `m/kept"`)
	if hint := fault.HintOf(err); hint != fmt.Sprintf("chattr -R -ia %q", filepath.Join(top, "m/kept")) {
		t.Errorf("got hint %q, want a chattr command", hint)
	}
	if exists(filepath.Join(top, "m/gone")) || exists(filepath.Join(top, "m/a")) || exists(filepath.Join(top, "z")) {
		t.Error("other entries were not removed")
	}
}

func TestRemoveSkipsMountPoints(t *testing.T) {
	testenv.NeedsRoot(t, "mount")
	outside, top := t.TempDir(), filepath.Join(t.TempDir(), "top")
	put(t, filepath.Join(outside, "precious"), "x", 0o644)
	for _, name := range []string{"a/mnt", "z"} {
		check(t, os.MkdirAll(filepath.Join(top, name), 0o755))
	}
	mnt := filepath.Join(top, "a/mnt")
	if err := unix.Mount(outside, mnt, "", unix.MS_BIND, ""); err != nil {
		testenv.Lacks(t, err)
	}
	err := Remove(t.Context(), top)
	check(t, unix.Unmount(mnt, unix.MNT_DETACH))
	wantKind(t, err, fault.Precondition, `a/mnt": a file system is mounted there`)
	if !exists(filepath.Join(outside, "precious")) || exists(filepath.Join(top, "z")) {
		t.Error("the mount was emptied, or the rest of the tree was not removed")
	}
	check(t, Remove(t.Context(), top))
}

func TestRemoveLargeFolders(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	check(t, os.Mkdir(top, 0o755))
	put(t, filepath.Join(top, "0"), "x", 0o644)
	for i := range chunk*2 + 2 { // Hard links are faster to create than files.
		check(t, os.Link(filepath.Join(top, "0"), filepath.Join(top, fmt.Sprint(i+1))))
	}
	check(t, Remove(t.Context(), top))
	if exists(top) {
		t.Errorf("%s still exists", top)
	}
}

func TestRemoveEndsWithItsContext(t *testing.T) {
	top := fullTree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Remove(ctx, top); !errors.Is(err, context.Canceled) || !exists(filepath.Join(top, "a/b/c/007")) {
		t.Error(err)
	}
	check(t, Remove(t.Context(), top))
}

// TestRemoveDuringChanges removes a tree while a goroutine changes it. The goroutine moves folders
// out of the tree and back, and replaces them with symbolic links to a folder outside.
func TestRemoveDuringChanges(t *testing.T) {
	outside := t.TempDir()
	in := func(name string) string { return filepath.Join(outside, name) }
	check(t, os.Mkdir(in("precious"), 0o755))
	for i := range 50 {
		put(t, in(fmt.Sprintf("precious/%d", i)), "x", 0o644)
	}
	for range 12 {
		top := in("top")
		for i := range 6 {
			for j := range 6 {
				folder := filepath.Join(top, fmt.Sprint(i), fmt.Sprint(j), "x")
				check(t, os.MkdirAll(folder, 0o755))
				put(t, filepath.Join(folder, "f"), "x", 0o644)
			}
		}
		stop, done := make(chan struct{}), sync.WaitGroup{}
		done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				from := filepath.Join(top, fmt.Sprint(n%6), fmt.Sprint(n/6%6))
				os.Rename(from, in("aside"))
				os.Symlink(in("precious"), from)
				os.Remove(from)
				os.Rename(in("aside"), from)
				os.Rename(filepath.Join(from, "x"), filepath.Join(top, "x"))
			}
		})
		err := Remove(t.Context(), top)
		close(stop)
		done.Wait()
		var of *fault.Error
		if err != nil && !errors.As(err, &of) {
			t.Error(err)
		}
		check(t, Remove(t.Context(), top))
		check(t, Remove(t.Context(), in("aside")))
		if left, err := os.ReadDir(in("precious")); len(left) != 50 {
			t.Fatalf("got %d precious files, want 50, %v", len(left), err)
		}
	}
}

// TestConcurrentRemove removes one tree with several goroutines at the same time. All calls must
// succeed, and the tree must not exist when the first call returns.
func TestConcurrentRemove(t *testing.T) {
	for range 5 {
		top := filepath.Join(t.TempDir(), "top")
		for i := range 4 {
			folder := top
			for j := range maxOpen + 4 { // deep enough that the trail must reopen folders on the way up
				folder = filepath.Join(folder, fmt.Sprint(i*j%3))
				check(t, os.MkdirAll(filepath.Join(folder, "x"), 0o755))
				put(t, filepath.Join(folder, "x", "f"), "x", 0o644)
			}
		}
		var removers sync.WaitGroup
		for range 4 {
			removers.Go(func() {
				if err := Remove(t.Context(), top); err != nil {
					t.Error(err)
				}
				if exists(top) {
					t.Errorf("%s still exists", top)
				}
			})
		}
		removers.Wait()
	}
}
