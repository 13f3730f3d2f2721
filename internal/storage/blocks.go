package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// blocks implements block storage.
type blocks struct{ Folder }

// blankImage is the name of the empty volume of default size in the shared folder. If the format of
// volumes changes, the number in the name must change.
const blankImage = "blank-1.ext4"

func (b blocks) create(ctx context.Context, seed Seed) (store.Disks, error) {
	base := name("volume", ".ext4")
	var err error
	switch {
	case seed == nil && b.bytes() == machine.DefaultVolumeBytes:
		err = b.blank(ctx, b.path(base))
	case seed == nil:
		err = b.build(ctx, nothing, b.path(base))
	default:
		err = b.build(ctx, seed, b.path(base))
	}
	if err != nil {
		return store.Disks{}, err
	}
	return b.reset(ctx, store.Disks{Volume: []string{base}}, store.Disks{Baseline: []string{base}}, false)
}

// build creates a volume from a seed.
func (b blocks) build(ctx context.Context, seed Seed, path string) error {
	return seed.into(ctx, func(from io.Reader) error {
		return ext4image.BuildVolume(ctx, from, path, ext4image.Limits{}, b.bytes())
	})
}

// blank links the empty volume of default size to path. The first call creates that volume.
func (b blocks) blank(ctx context.Context, path string) error {
	shared := filepath.Join(b.Shared, blankImage)
	if err := os.Link(shared, path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(b.Shared, 0o700); err != nil {
		return err
	}
	lock, err := flock.Take(ctx, shared+".lock", flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	if _, err := os.Lstat(shared); errors.Is(err, fs.ErrNotExist) {
		part := shared + ".part" // The fixed name lets the next call remove a leftover.
		if err := os.RemoveAll(part); err != nil {
			return err
		}
		if err := b.build(ctx, nothing, part); err != nil {
			os.Remove(part)
			return err
		}
		if err := errors.Join(os.Chmod(part, 0o400), os.Rename(part, shared)); err != nil {
			return err
		}
	}
	return os.Link(shared, path)
}

// layer creates an empty layer and returns its name.
func (b blocks) layer(what string) (string, error) {
	n := name(what, ".qcow2")
	f, err := os.OpenFile(b.path(n), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := qcow2.Create(f, ext4image.VirtualSize); err != nil {
		return "", err
	}
	return n, f.Sync()
}

func (b blocks) prepare(_ context.Context, d store.Disks, whole bool) (s Snapshot, err error) {
	s.Disks = store.Disks{Volume: d.Volume}
	s.Next = d
	volume, err := b.layer("volume")
	if err != nil {
		return s, err
	}
	s.Next.Volume, s.VolumeLayer = over(d.Volume, volume), b.path(volume)
	if !whole {
		return s, nil
	}
	if _, err := os.Lstat(b.path(top(d.Root))); len(d.Root) == 1 && errors.Is(err, fs.ErrNotExist) {
		return s, nil // No machine has used the root yet, so the snapshot needs no root.
	}
	root, err := b.layer("root")
	if err != nil {
		return s, err
	}
	s.Disks.Root, s.Next.Root, s.RootLayer = d.Root, over(d.Root, root), b.path(root)
	return s, nil
}

func (b blocks) take(context.Context, Snapshot) error { return nil }

func (b blocks) reset(_ context.Context, from, of store.Disks, whole bool) (store.Disks, error) {
	next := store.Disks{Baseline: of.Baseline}
	volume, err := b.layer("volume")
	if err != nil {
		return next, err
	}
	next.Volume = over(from.Volume, volume)
	if !whole || len(from.Root) == 0 {
		next.Root = []string{name("root", ".qcow2")} // the first machine creates the root
		return next, nil
	}
	root, err := b.layer("root")
	if err != nil {
		return next, err
	}
	next.Root = over(from.Root, root)
	return next, nil
}

func (b blocks) adopt(_ context.Context, source Folder, d store.Disks, _, _ bool) error {
	for _, n := range append(append([]string{}, d.Volume...), d.Root...) {
		if err := os.Link(source.path(n), b.path(n)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (b blocks) size(d, others store.Disks) (n int64) {
	had := map[string]bool{}
	for _, l := range append(append([]string{}, others.Volume...), others.Root...) {
		had[l] = true
	}
	for _, l := range append(append([]string{}, d.Volume...), d.Root...) {
		if !had[l] {
			taken, _ := disk.Allocated(b.path(l))
			n += taken
		}
	}
	return n
}
