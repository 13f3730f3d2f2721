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

// What a machine was saved as is a folder among the disks. Like a layer it is written once, named in the database once it is whole, and shared by hard links of its files.

// NewMemory makes a folder for a machine to be saved to, and gives the disks with it.
func (f Folder) NewMemory(d store.Disks) (path string, next store.Disks, err error) {
	next = d
	next.Memory = name("memory", "")
	path = f.path(next.Memory)
	return path, next, fault.Wrap(os.Mkdir(path, 0o700), "make folder for memory", "")
}

// GoOn makes the disks for a machine that goes on from d.Memory. What it writes to them leaves d as it is in block storage: so whoever dies before the machine goes on for
// certain may begin again.
func (f Folder) GoOn(ctx context.Context, d store.Disks) (store.Disks, error) {
	next, err := f.kind().goOn(ctx, d)
	next.Memory = ""
	if err == nil {
		err = f.flush()
	}
	return next, fault.Wrap(err, "prepare disks", "")
}

// DropMemory removes what a machine was saved as, which the database does not name any more.
func (f Folder) DropMemory(ctx context.Context, memory string) error {
	return fault.Wrap(tree.Remove(ctx, f.path(memory)), "remove memory", "")
}

// MemorySize is what a machine was saved as takes on the host, in bytes.
func (f Folder) MemorySize(memory string) int64 {
	taken, _, _ := tree.Size(context.Background(), f.path(memory))
	return taken
}

// Flush makes the names of the disks durable.
func (f Folder) Flush() error { return fault.Wrap(f.flush(), "flush disks", f.Path) }

// adoptMemory takes over what a machine of another workspace was saved as, with its names flushed.
func (f Folder) adoptMemory(ctx context.Context, source Folder, memory string) error {
	from, to := source.path(memory), f.path(memory)
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

func (b blocks) goOn(_ context.Context, d store.Disks) (store.Disks, error) {
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

// goOn of a tree gives the tree: to copy it takes longer than all else.
func (t trees) goOn(_ context.Context, d store.Disks) (store.Disks, error) { return d, nil }
