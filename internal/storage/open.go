package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Files is what is seen at /workspace of a volume, as it lies on the host. No machine may be writing to its layers. Close it.
type Files struct {
	view.Tree
	io.Closer
}

// OpenFiles opens the files of a volume by its layers.
func (f Folder) OpenFiles(layers []string) (Files, error) {
	if len(layers) == 0 {
		return Files{}, fs.ErrNotExist
	}
	if !f.Blocks {
		root, err := os.OpenRoot(filepath.Join(f.path(top(layers)), filesFolder))
		if err != nil {
			return Files{}, err
		}
		return Files{view.Folder(root), root}, nil
	}
	paths := f.paths(layers)
	tree, disk, err := openImage(paths[0], paths[1:])
	if err != nil {
		return Files{}, err
	}
	return Files{view.Below(tree, filesFolder), disk}, nil
}

// openImage opens a file system in layers, of which the lowest is a raw image.
func openImage(raw string, layers []string) (*ext4.FS, io.Closer, error) {
	disk, err := qcow2.OpenFiles(raw, layers...)
	if err != nil {
		return nil, nil, err
	}
	tree, err := ext4.Open(disk, disk.Size())
	if err != nil {
		return nil, nil, errors.Join(err, disk.Close())
	}
	return tree, disk, nil
}

// View is root and volume together, as a machine would see them. Close it.
type View struct {
	*view.FS
	closers []io.Closer
}

// Close closes the disks.
func (v *View) Close() error {
	var errs []error
	for _, c := range v.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// OpenView opens the disks of a workspace whose machine has ended, over the image of its environment.
func (f Folder) OpenView(ctx context.Context, d store.Disks, image string) (*View, error) {
	v := &View{}
	root, err := f.openRoot(ctx, v, d, image)
	if err == nil {
		var files Files
		if files, err = f.OpenFiles(d.Volume); err == nil {
			v.closers = append(v.closers, files)
			v.FS = view.New(root, files)
			return v, nil
		}
	}
	return nil, errors.Join(err, v.Close())
}

// openRoot opens the root, whose files v closes.
func (f Folder) openRoot(ctx context.Context, v *View, d store.Disks, image string) (view.Tree, error) {
	var layers []string
	if f.Blocks {
		layers = f.paths(d.Root)
	}
	root, disk, err := openImage(image, layers)
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, disk)
	if f.Blocks || len(d.Root) == 0 {
		return root, nil
	}
	changes, err := os.Open(f.path(top(d.Root)))
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, changes)
	info, err := changes.Stat()
	if err != nil {
		return nil, err
	}
	return view.Over(ctx, root, changes, info.Size())
}
