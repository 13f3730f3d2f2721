package storage

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestFullDisks fills a real file system at each step that writes. It needs root for the mount.
func TestFullDisks(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		disk := t.TempDir()
		if err := unix.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
			testenv.Lacks(t, "no mounts here: ", err)
		}
		defer unix.Unmount(disk, unix.MNT_DETACH)
		f.Path, f.Shared = filepath.Join(disk, "one"), filepath.Join(disk, "shared")
		text := rand.Text()
		files := map[string]string{"large": strings.Repeat(text, 4<<20/len(text)), "small": text}
		d, err := f.Create(t.Context(), seedOf(files))
		check(t, err)
		d = startRoot(t, f, d, strings.Repeat(text, 1<<20/len(text)))
		s := snapshot(t, f, d, true)
		kept, other := names(t, f), f.beside("other")
		for name, do := range map[string]func() error{
			"create":         func() error { _, err := other.Create(t.Context(), seedOf(files)); return err },
			"create nothing": func() error { _, err := other.Create(t.Context(), nil); return err },
			"snapshot": func() error {
				s, err := f.Prepare(t.Context(), s.Next, true)
				if err == nil {
					err = f.Take(t.Context(), s)
				}
				return err
			},
			"reset": func() error { _, err := f.Reset(t.Context(), s.Disks, s.Next, true); return err },
			"fork":  func() error { _, err := other.Fork(t.Context(), f, s.Disks, true, false); return err },
		} {
			for _, room := range []int64{0, 4 << 10, 1 << 20, 4<<20 + 64<<10} {
				release := fill(t, disk, room)
				err := do()
				// Layers of blocks are small. A snapshot of a tree shares the unchanged files.
				fits := room > 0 && f.Blocks && name != "create" || !f.Blocks && (name == "create nothing" || name == "snapshot" && room >= 1<<20)
				// Volumes of linked trees share files too. The root is copied.
				fits = fits || f.Links && (name == "create" && room > 4<<20 || (name == "reset" || name == "fork") && room >= 1<<20)
				if fault.KindOf(err) != fault.Exhausted && !(err == nil && fits) {
					t.Errorf("%s with room for %d: %s: %v", name, room, fault.KindOf(err), err)
				}
				check(t, f.Sweep(t.Context(), d, s.Disks, s.Next)) // Sweep must also work on a full disk.
				check(t, other.Sweep(t.Context()))
				if left := append(names(t, other), names(t, f)...); !slices.Equal(left, kept) {
					t.Errorf("%s with space for %d: leftovers %v", name, room, left)
				}
				if shared, _ := filepath.Glob(filepath.Join(f.Shared, "*.part")); shared != nil {
					t.Errorf("%s with space for %d: leftovers %v", name, room, shared)
				}
				release()
			}
			if err := do(); err != nil {
				t.Errorf("%s with room: %v", name, err)
			}
			check(t, errors.Join(f.Sweep(t.Context(), d, s.Disks, s.Next), other.Sweep(t.Context())))
		}
		for _, of := range []store.Disks{d, s.Disks, s.Next} {
			wantFiles(t, f, of, files)
		}
	})
}

// fill fills a disk until only room bytes are free. The returned function frees the space again.
func fill(t *testing.T, disk string, room int64) func() {
	t.Helper()
	path := filepath.Join(disk, "ballast")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	check(t, err)
	defer file.Close()
	var stat unix.Statfs_t
	check(t, unix.Statfs(disk, &stat))
	check(t, unix.Fallocate(int(file.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-room))
	return func() { check(t, os.Remove(path)) }
}
