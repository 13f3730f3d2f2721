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

// destination is a name in an open folder of the host's, and beside it another one under which what it is to have is put together.
type destination struct {
	target string // as the caller gave it
	folder *os.File
	name   string
	staged string
}

// destine opens the folder that target is in. The caller closes it.
func destine(target string) (*destination, error) {
	path, err := filepath.Abs(target)
	if err != nil {
		return nil, fault.Wrap(err, opExport, target)
	}
	folder, name := filepath.Split(path)
	if name == "" || target == "" {
		return nil, fault.New(fault.Invalid, opExport, target, "this can't be the name of a file or folder")
	}
	folder = filepath.Clean(folder)
	file, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fault.New(fault.NotFound, opExport, target, "there is no folder %q", folder).WithHint("mkdir -p %q", folder)
	case errors.Is(err, unix.ENOTDIR):
		return nil, fault.New(fault.Invalid, opExport, target, "%q is no folder", folder)
	case err != nil:
		return nil, fault.Wrap(cause(err), opExport, target)
	}
	return &destination{target, file, name, random()}, nil
}

func random() string { return ".pyro-export-" + strings.ToLower(rand.Text()) }

// path is where on the host a name in the folder is.
func (d *destination) path(name string) string { return filepath.Join(d.folder.Name(), name) }

func (d *destination) fd() int { return int(d.folder.Fd()) }

// check fails where something is at the destination, unless that may be replaced.
func (d *destination) check(force bool) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(d.fd(), d.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil
	case err == unix.ENAMETOOLONG:
		return fault.New(fault.Invalid, opExport, d.target, "no file can have so long a name")
	case err != nil:
		return fault.Wrap(err, opExport, d.target)
	case !force:
		return d.exists()
	}
	return nil
}

func (d *destination) exists() error {
	return fault.New(fault.Exists, opExport, d.target, "there is something there already").WithHint("%s replaces it", fault.Act("workspace_export", "--force").Taking("overwrite true"))
}

// renameat2 is the system call. Some file systems don't know its flags: NFS, FUSE without the help of its server.
var renameat2 = unix.Renameat2

// place gives what is staged its name. Where it replaces something, that has the staged name afterwards.
func (d *destination) place(force bool) error {
	if force {
		switch err := renameat2(d.fd(), d.staged, d.fd(), d.name, unix.RENAME_EXCHANGE); err {
		case unix.ENOENT: // there is nothing to replace
		case unix.EINVAL, unix.ENOSYS:
			return d.replace()
		default:
			return err
		}
	}
	switch err := renameat2(d.fd(), d.staged, d.fd(), d.name, unix.RENAME_NOREPLACE); err {
	case unix.EEXIST:
		return d.exists()
	case unix.EINVAL, unix.ENOSYS:
		return d.add()
	default:
		return err
	}
}

// add is what place does without leave to replace anything where the kernel can't be told so.
func (d *destination) add() error {
	if err := d.check(false); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), d.staged, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.Renameat(d.fd(), d.staged, d.fd(), d.name) // can replace no more than an empty folder
	}
	err := unix.Linkat(d.fd(), d.staged, d.fd(), d.name, 0)
	if err == unix.EEXIST {
		return d.exists()
	}
	return err // the other name is cleared
}

// replace is what place does with that leave where two names can't be exchanged at once: for a moment there is nothing at the destination.
func (d *destination) replace() error {
	old := random()
	err := unix.Renameat(d.fd(), d.name, d.fd(), old)
	if err == unix.ENOENT {
		return d.add()
	}
	if err != nil {
		return err
	}
	if err := unix.Renameat(d.fd(), d.staged, d.fd(), d.name); err != nil {
		if back := unix.Renameat(d.fd(), old, d.fd(), d.name); back != nil {
			return fault.Wrap(errors.Join(err, back), "what was there before is in", d.path(old))
		}
		return err
	}
	d.staged = old
	return nil
}

// clear removes what has the staged name.
func (d *destination) clear(ctx context.Context) error {
	return tree.RemoveIn(context.WithoutCancel(ctx), d.folder, d.staged)
}

// flush makes the new name last.
func (d *destination) flush() error {
	fd, err := unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		return nil // it may be written to, but not read
	}
	if err != nil {
		return fault.Wrap(err, opExport, d.target)
	}
	defer unix.Close(fd)
	return fault.Wrap(unix.Fsync(fd), opExport, d.target)
}
