package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/disk/qcow2"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Files provides the files of a volume to the host. Machines must not write to the layers while it
// is open. The caller must close it.
type Files struct {
	view.Tree
	io.Closer
}

// OpenFiles opens the files of a volume. layers are the names of the volume's layers.
func (f Folder) OpenFiles(layers []string) (Files, error) {
	if len(layers) == 0 {
		return Files{}, fs.ErrNotExist
	}
	if !f.Blocks {
		folder, err := f.OpenFolder(layers)
		if err != nil {
			return Files{}, err
		}
		defer folder.Close()
		root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()))
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
	return Files{view.Subtree(tree, filesFolder), disk}, nil
}

// OpenFolder opens the folder with the files of a volume in tree storage. A machine can use the
// volume at the same time.
func (f Folder) OpenFolder(layers []string) (*os.File, error) {
	volume, err := os.OpenFile(f.path(top(layers)), unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer volume.Close()
	// A hostile machine can replace the folder by a link.
	fd, err := unix.Openat(int(volume.Fd()), filesFolder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(volume.Name(), filesFolder), Err: err}
	}
	return os.NewFile(uintptr(fd), filesFolder), nil
}

// OpenComplete opens the folder with the files of a volume that a machine uses. In block storage,
// and if the machine has files that are not in the folder, it returns nil.
func (f Folder) OpenComplete(d store.Disks) (*os.File, error) {
	if f.Blocks {
		return nil, nil
	}
	if _, err := os.Lstat(filepath.Join(f.path(top(d.Volume)), machine.TreeIncomplete)); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.OpenFolder(d.Volume)
}

// openImage opens the file system in layers. The lowest layer is the raw image, and the others are
// qcow2.
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

// View is the file system of a machine, with the root and the volume. The caller must close it.
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

// OpenView opens the disks of a workspace that has no running machine. The root is on top of the
// image of its environment.
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

// openRoot opens the root. v.Close closes its files.
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
