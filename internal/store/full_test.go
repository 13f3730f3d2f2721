package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// fill fills a disk completely.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestFullDisk checks that on a full disk deletions succeed and optional writes fail. When there is
// space again, everything works as before.
func TestFullDisk(t *testing.T) {
	testenv.NeedsRoot(t, "mount a small disk")
	dir := t.TempDir()
	if err := unix.Mount("pyro-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		testenv.Lacks(t, "a small disk: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	ctx, s := t.Context(), Open(dir)
	now := time.Now()
	for _, id := range []string{"ws-a", "ws-b"} {
		check(t, s.AddWorkspace(ctx, Workspace{ID: id, Kind: KindWorkspace, CreatedAt: now}))
	}
	command := Command{Argv: []string{"true"}, StartedAt: now, EndedAt: now, Stdout: bytes.Repeat([]byte("x"), OutputBytes)}
	begin := func() (err error) {
		if command.Sequence, err = s.Begin(ctx, "ws-a", command); err == nil {
			err = s.End(ctx, "ws-a", command, time.Time{})
		}
		return err
	}
	check(t, begin())
	filling := filepath.Join(dir, "filling")
	fill(t, filling)
	err := begin()
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; err = begin() { // SQLite's files still have some unused space
	}
	if fault.KindOf(err) != fault.Exhausted || fault.HintOf(err) == "" {
		t.Errorf("the history of a full disk: %v, hint %q", err, fault.HintOf(err))
	}
	check(t, s.Close())
	s = Open(dir) // the next process needs space for SQLite's shared memory file
	defer s.Close()
	all, err := s.Workspaces(ctx, KindWorkspace)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d workspaces, %v", len(all), err)
	}
	check(t, s.Delete(ctx, "ws-b"))
	check(t, os.Remove(filling))
	check(t, begin())
	if info, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil || info.Size() != reserveBytes {
		t.Errorf("the reserve: %v", err)
	}
}

// TestReleasedSpace checks that no other process takes the released space.
func TestReleasedSpace(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s, other := Open(dir), Open(dir)
	check(t, s.AddWorkspace(ctx, Workspace{ID: "ws-a", Kind: KindWorkspace, CreatedAt: time.Now()}))
	allocated := func() bool {
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(dir, reserveFile), &st))
		return st.Blocks > 0
	}
	if !allocated() {
		testenv.Lacks(t, "a file system that can preallocate")
	}
	done := s.Release(ctx)
	doneToo := other.Release(ctx)
	check(t, other.AddWorkspace(ctx, Workspace{ID: "ws-b", Kind: KindWorkspace, CreatedAt: time.Now()}))
	doneToo()
	if allocated() {
		t.Error("the space was taken before its owner was done")
	}
	done()
	if !allocated() {
		t.Error("the space was not reserved again")
	}
	check(t, s.Close())
	check(t, other.Close())
}
