package storage

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// OpenRoot opens the root on top of the image of its environment. Machines must not write to the
// disks while the root is open. The caller must close the closer.
func (f Folder) OpenRoot(ctx context.Context, d store.Disks, image string) (view.Tree, io.Closer, error) {
	v := &View{}
	root, err := f.openRoot(ctx, v, d, image)
	if err != nil {
		v.Close()
		return nil, nil, fault.Wrap(err, "open root", f.Path)
	}
	return root, v, nil
}

// Flatten creates disks that contain the files of a volume in a single layer, and no root. Machines
// must not write to the volume during the call.
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

// flatten copies the tree, because the machine continues to write to the tree of d.
func (t trees) flatten(ctx context.Context, d store.Disks) (string, error) {
	volume := name("volume", "")
	return volume, t.copy(ctx, t.path(volume), t.path(top(d.Volume)), tree.Sharing{Mark: true})
}
