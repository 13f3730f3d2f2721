package storage

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// OpenRoot opens the root of disks that no machine writes to, over the image of its environment. Close it.
func (f Folder) OpenRoot(ctx context.Context, d store.Disks, image string) (view.Tree, io.Closer, error) {
	v := &View{}
	root, err := f.openRoot(ctx, v, d, image)
	if err != nil {
		v.Close()
		return nil, nil, fault.Wrap(err, "open root", f.Path)
	}
	return root, v, nil
}

// Flatten makes disks whose volume has the files of others, in one layer that holds no more than that, and no root. No machine may write to those.
func (f Folder) Flatten(ctx context.Context, d store.Disks) (store.Disks, error) {
	volume, err := f.kind().flatten(ctx, d)
	if err == nil {
		err = f.flush()
	}
	return store.Disks{Volume: []string{volume}, Baseline: []string{volume}}, fault.Wrap(err, "flatten disks", "")
}

func (b blocks) flatten(ctx context.Context, d store.Disks) (string, error) {
	paths := b.paths(d.Volume)
	from, disk, err := openImage(paths[0], paths[1:])
	if err != nil {
		return "", err
	}
	defer disk.Close()
	volume := name("volume", ".ext4")
	return volume, ext4image.FillVolume(ctx, b.path(volume), b.bytes(), func(w *mkext4.Writer) error { return view.Copy(ctx, from, w) })
}

// flatten of a tree copies it: it is flat, and the machine goes on writing to its own.
func (t trees) flatten(ctx context.Context, d store.Disks) (string, error) {
	volume := name("volume", "")
	return volume, t.copy(ctx, t.path(volume), t.path(top(d.Volume)))
}
