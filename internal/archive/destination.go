package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// destination is a name in an open directory of the host. Extract prepares the content under a
// second, temporary name in the same directory.
type destination struct {
	target string // the path that the caller passed
	folder *os.File
	name   string
	staged string
}

// newDestination opens the parent directory of target. The caller must close that directory.
func newDestination(target string) (*destination, error) {
	path, err := filepath.Abs(target)
	if err != nil {
		return nil, fault.Wrap(err, opExport, target)
	}
	folder, name := filepath.Split(path)
	if name == "" || target == "" {
		return nil, fault.New(fault.Invalid, opExport, target, "this is not a valid name of a file or directory")
	}
	folder = filepath.Clean(folder)
	file, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fault.New(fault.NotFound, opExport, target, "the directory %q does not exist", folder).WithHint("mkdir -p %q", folder)
	case errors.Is(err, unix.ENOTDIR):
		return nil, fault.New(fault.Invalid, opExport, target, "%q is not a directory", folder)
	case err != nil:
		return nil, fault.Wrap(cause(err), opExport, target)
	}
	return &destination{target, file, name, random()}, nil
}

func random() string { return ".pyro-export-" + strings.ToLower(rand.Text()) }

// path returns the host path of the entry name in the directory.
func (d *destination) path(name string) string { return filepath.Join(d.folder.Name(), name) }

func (d *destination) fd() int { return int(d.folder.Fd()) }

// check fails if the destination already exists, unless force is true.
func (d *destination) check(force bool) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(d.fd(), d.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil
	case err == unix.ENAMETOOLONG:
		return fault.New(fault.Invalid, opExport, d.target, "the name is too long")
	case err != nil:
		return fault.Wrap(err, opExport, d.target)
	case !force:
		return d.exists()
	}
	return nil
}

func (d *destination) exists() error {
	return fault.New(fault.Exists, opExport, d.target, "it exists already").WithHint("%s replaces it", fault.Act("workspace_export", "--force").Taking("overwrite true"))
}

// renameat2 is the system call. Tests replace it to simulate NFS and some FUSE servers, which do
// not support its flags.
var renameat2 = unix.Renameat2

// install renames the prepared content to its final name. If the destination already exists, its
// old content gets the temporary name.
func (d *destination) install(force bool) error {
	if force {
		switch err := renameat2(d.fd(), d.staged, d.fd(), d.name, unix.RENAME_EXCHANGE); err {
		case unix.ENOENT: // There is nothing to replace.
		case unix.EINVAL, unix.ENOSYS:
			return d.installOver()
		default:
			return err
		}
	}
	switch err := renameat2(d.fd(), d.staged, d.fd(), d.name, unix.RENAME_NOREPLACE); err {
	case unix.EEXIST:
		return d.exists()
	case unix.EINVAL, unix.ENOSYS:
		return d.installNew()
	default:
		return err
	}
}

// installNew implements install without force if the file system does not support RENAME_NOREPLACE.
func (d *destination) installNew() error {
	if err := d.check(false); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), d.staged, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.Renameat(d.fd(), d.staged, d.fd(), d.name) // Renameat can replace only an empty directory.
	}
	err := unix.Linkat(d.fd(), d.staged, d.fd(), d.name, 0)
	if err == unix.EEXIST {
		return d.exists()
	}
	return err // The caller removes the temporary name.
}

// installOver implements install with force if the file system does not support RENAME_EXCHANGE.
// For a moment the destination does not exist.
func (d *destination) installOver() error {
	old := random()
	err := unix.Renameat(d.fd(), d.name, d.fd(), old)
	if err == unix.ENOENT {
		return d.installNew()
	}
	if err != nil {
		return err
	}
	if err := unix.Renameat(d.fd(), d.staged, d.fd(), d.name); err != nil {
		if back := unix.Renameat(d.fd(), old, d.fd(), d.name); back != nil {
			return fault.Wrap(errors.Join(err, back), "the previous content is in", d.path(old))
		}
		return err
	}
	d.staged = old
	return nil
}

// removeStaged removes the temporary name.
func (d *destination) removeStaged(ctx context.Context) error {
	return tree.RemoveIn(context.WithoutCancel(ctx), d.folder, d.staged)
}

// flush flushes the directory to disk, so that the new name survives a crash.
func (d *destination) flush() error {
	fd, err := unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		return nil // The directory is writable but not readable.
	}
	if err != nil {
		return fault.Wrap(err, opExport, d.target)
	}
	defer unix.Close(fd)
	return fault.Wrap(unix.Fsync(fd), opExport, d.target)
}
