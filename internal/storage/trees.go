package storage

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// trees implements tree storage. Each volume is a folder in the format of the agent. Its subfolder
// "files" contains the content of /workspace, and its subfolder "pending" contains unfinished
// changes.
type trees struct{ Folder }

const (
	filesFolder   = "files"
	pendingFolder = "pending"
)

func (t trees) create(ctx context.Context, seed Seed) (store.Disks, error) {
	d := store.Disks{Baseline: []string{name("volume", "")}, Volume: []string{name("volume", "")}}
	if seed == nil {
		seed = nothing
	}
	if err := t.fill(ctx, seed, d); err != nil {
		return d, err
	}
	fresh, err := t.writtenBy(d.Volume[0])
	d.FreshUntil = fresh
	return d, err
}

// fill creates the baseline and the volume with the content of a seed, and flushes them to disk.
func (t trees) fill(ctx context.Context, seed Seed, d store.Disks) error {
	baseline, volume := t.path(d.Baseline[0]), t.path(d.Volume[0])
	all := []string{baseline}
	if !t.Links {
		all = append(all, volume)
	}
	var files []string
	for _, v := range all {
		if err := os.Mkdir(v, 0o700); err != nil {
			return err
		}
		files = append(files, filepath.Join(v, filesFolder))
	}
	err := seed.into(ctx, func(from io.Reader) (err error) {
		if t.Links {
			_, err = tree.WriteConstant(ctx, t.limited(from), files[0])
		} else {
			_, err = tree.Write(ctx, t.limited(from), files...)
		}
		if err != nil {
			return err
		}
		return t.fits(ctx, files[0])
	})
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := os.Mkdir(filepath.Join(v, pendingFolder), 0o700); err != nil {
			return err
		}
	}
	if t.Links {
		return t.copy(ctx, volume, baseline, tree.Sharing{Constant: true})
	}
	return tree.Flush(ctx, t.Path)
}

// copy creates a volume with the files of another volume, without unfinished changes. sharing.Base
// is the folder of a volume. Marks count only if this storage has links. The copy keeps the file
// machine.TreeIncomplete, because a machine that resumes with the copy can have entries that the
// folder lacks.
func (t trees) copy(ctx context.Context, to, from string, sharing tree.Sharing) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if sharing.Base != "" {
		sharing.Base = filepath.Join(sharing.Base, filesFolder)
	}
	sharing.Marked, sharing.Mark = t.Links, sharing.Mark && t.Links
	if _, err := tree.CopySharing(ctx, filepath.Join(to, filesFolder), filepath.Join(from, filesFolder), sharing); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(to, pendingFolder), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(from, machine.TreeIncomplete)); err == nil {
		if err := os.WriteFile(filepath.Join(to, machine.TreeIncomplete), nil, 0o600); err != nil {
			return err
		}
	}
	return tree.Flush(ctx, to)
}

func (t trees) prepare(_ context.Context, d store.Disks, whole bool) (s Snapshot, err error) {
	s.Disks, s.Next = store.Disks{Volume: []string{name("volume", "")}}, d
	if whole && len(d.Root) > 0 {
		s.Disks.Root = []string{name("root", ".tar")}
	}
	return s, nil
}

// take copies the volume. The snapshot shares files with the volume and with the baseline.
func (t trees) take(ctx context.Context, s Snapshot) error {
	sharing := tree.Sharing{Mark: true, Paused: true}
	if len(s.from.Baseline) > 0 {
		sharing.Base = t.path(top(s.from.Baseline))
	}
	if err := t.copy(ctx, t.path(top(s.Disks.Volume)), t.path(top(s.from.Volume)), sharing); err != nil {
		return err
	}
	return t.copyRoot(t.path(top(s.Disks.Root)), top(s.Disks.Root), s.from)
}

// copyRoot copies the root of other disks, if they have one. If wanted is "", it does nothing.
func (t trees) copyRoot(to, wanted string, from store.Disks) error {
	if wanted == "" || len(from.Root) == 0 {
		return nil
	}
	return copyFile(to, t.path(top(from.Root)))
}

func (t trees) reset(ctx context.Context, from, of store.Disks, whole bool) (store.Disks, error) {
	next := store.Disks{Baseline: of.Baseline, Volume: []string{name("volume", "")}}
	if err := t.copy(ctx, t.path(next.Volume[0]), t.path(top(from.Volume)), tree.Sharing{Constant: true}); err != nil {
		return next, err
	}
	if top(from.Volume) == top(of.Baseline) {
		fresh, err := t.writtenBy(next.Volume[0])
		if err != nil {
			return next, err
		}
		next.FreshUntil = fresh
	}
	if whole && len(from.Root) > 0 {
		next.Root = []string{name("root", ".tar")}
		return next, copyFile(t.path(next.Root[0]), t.path(top(from.Root)))
	}
	return next, nil
}

func (t trees) adopt(ctx context.Context, source Folder, d store.Disks, constant, owned bool) error {
	from := source.path(top(d.Volume))
	if constant && owned {
		for _, name := range slices.Concat(d.Volume, d.Root) {
			if err := os.Rename(source.path(name), t.path(name)); err != nil {
				return err
			}
		}
		return nil
	}
	// If no machine resumes with the copy, the copy is also the baseline, which never changes.
	sharing := tree.Sharing{Mark: d.Checkpoint == "", Paused: true}
	if constant {
		sharing.Base, sharing.Constant = from, true
	}
	if err := t.copy(ctx, t.path(top(d.Volume)), from, sharing); err != nil {
		return err
	}
	if len(d.Root) > 0 {
		return copyFile(t.path(top(d.Root)), source.path(top(d.Root)))
	}
	return nil
}

// writtenBy returns a time from the clock of the file system, which is coarser than the clock of
// the host. No file of the new volume changed after this time. Every later change gets this time or
// a later one.
func (t trees) writtenBy(volume string) (int64, error) {
	var st unix.Stat_t
	pending := filepath.Join(t.path(volume), pendingFolder)
	if err := unix.Lstat(pending, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: pending, Err: err}
	}
	return st.Ctim.Nano(), nil
}

func (t trees) size(d, _ store.Disks) (n int64) {
	for _, v := range d.Volume {
		taken, _, _ := tree.Size(context.Background(), filepath.Join(t.path(v), filesFolder))
		n += taken
	}
	for _, r := range d.Root {
		taken, _ := disk.Allocated(t.path(r))
		n += taken
	}
	return n
}

// copyFile copies a file and flushes the copy to disk.
func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	return errors.Join(disk.Copy(dst, src), dst.Sync())
}
