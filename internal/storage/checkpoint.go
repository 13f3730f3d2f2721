package storage

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// A checkpoint is a folder in the folder of the disks. Like a layer, it is written only once. The
// database refers to it after it is complete. Workspaces share a checkpoint through hard links to
// its files.

// NewCheckpoint creates a folder for a checkpoint of a machine. It returns the path of the folder,
// and the disks that refer to it.
func (f Folder) NewCheckpoint(d store.Disks) (path string, next store.Disks, err error) {
	next = d
	next.Checkpoint = name("memory", "")
	path = f.path(next.Checkpoint)
	return path, next, fault.Wrap(os.Mkdir(path, 0o700), "create checkpoint", "")
}

// Resume creates the disks for a machine that is restored from d.Checkpoint. In block storage the
// machine does not change d, so callers can repeat a failed restore.
func (f Folder) Resume(ctx context.Context, d store.Disks) (store.Disks, error) {
	next, err := f.kind().resume(ctx, d)
	next.Checkpoint = ""
	if err == nil {
		err = f.flush()
	}
	return next, fault.Wrap(err, "prepare disks", "")
}

// RemoveCheckpoint removes a checkpoint. The database must no longer refer to it.
func (f Folder) RemoveCheckpoint(ctx context.Context, checkpoint string) error {
	return fault.Wrap(tree.Remove(ctx, f.path(checkpoint)), "remove checkpoint", "")
}

// CheckpointSize returns the number of bytes that a checkpoint occupies on the host.
func (f Folder) CheckpointSize(checkpoint string) int64 {
	taken, _, _ := tree.Size(context.Background(), f.path(checkpoint))
	return taken
}

// Flush flushes the names of the disks to disk.
func (f Folder) Flush() error { return fault.Wrap(f.flush(), "flush disks", f.Path) }

// adoptCheckpoint links the checkpoint of another workspace into this folder, and flushes the names
// to disk.
func (f Folder) adoptCheckpoint(ctx context.Context, source Folder, checkpoint string) error {
	from, to := source.path(checkpoint), f.path(checkpoint)
	var made []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		at := filepath.Join(to, path[len(from):])
		if d.IsDir() {
			made = append(made, at)
			return os.Mkdir(at, 0o700)
		}
		return os.Link(path, at)
	})
	for _, dir := range made {
		if err == nil {
			err = durable.Sync(dir)
		}
	}
	return err
}

func (b blocks) resume(_ context.Context, d store.Disks) (store.Disks, error) {
	volume, err := b.layer("volume")
	if err != nil {
		return d, err
	}
	root, err := b.layer("root")
	if err != nil {
		return d, err
	}
	d.Volume, d.Root = over(d.Volume, volume), over(d.Root, root)
	return d, nil
}

// baseline returns the volume itself, because the machine writes to the layer that resume adds.
func (b blocks) baseline(_ context.Context, volume []string) ([]string, error) { return volume, nil }

// resume returns the same tree, because copying the tree would take longer than the rest of a
// restore.
func (t trees) resume(_ context.Context, d store.Disks) (store.Disks, error) { return d, nil }

// baseline returns a copy, because the machine writes to the tree itself.
func (t trees) baseline(ctx context.Context, volume []string) ([]string, error) {
	copied := name("volume", "")
	return []string{copied}, t.copy(ctx, t.path(copied), t.path(top(volume)), tree.Sharing{Mark: true})
}
