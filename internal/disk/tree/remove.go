package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Remove removes a file, or a folder with its content. It succeeds if path does not exist. If a
// folder's mode denies access to its owner, Remove first adds the owner's permissions. Remove
// follows no symbolic links and enters no mount points.
//
// Other processes can change the tree during the removal. Remove ignores entries that they move out
// of the tree, and fails if they add entries. Concurrent calls for the same tree all succeed.
//
// If Remove cannot remove an entry, it continues with the other entries and returns the first such
// error. The error has a hint if the user can fix the cause.
func Remove(ctx context.Context, path string) error {
	folder, err := retry(func() (int, error) {
		return unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return withPath(err, "remove", path)
	}
	parent := os.NewFile(uintptr(folder), filepath.Dir(path))
	defer parent.Close()
	return RemoveIn(ctx, parent, filepath.Base(path))
}

// RemoveIn is like Remove, but removes the entry name of an open folder.
func RemoveIn(ctx context.Context, folder *os.File, name string) error {
	if invalidName(name) {
		return fault.New(fault.Invalid, "remove", name, "invalid file name")
	}
	r := &remover{ctx: ctx, path: filepath.Join(folder.Name(), name), buffer: make([]byte, 64<<10)}
	top, err := openAt(int(folder.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return withPath(err, "remove", r.path)
	}
	if r.at, _, err = newTrail(top); err != nil {
		return withPath(err, "remove", r.path)
	}
	defer r.at.close()
	r.open = []*openFolder{{names: []string{name}}}
	return r.all()
}

// chunk limits the number of names that remover lists at a time, to limit its memory use.
const chunk = 2048

// remover removes a tree. Its trail begins in the parent folder of the tree.
type remover struct {
	ctx    context.Context
	path   string // the path of the tree
	at     *trail
	open   []*openFolder // the folders of the trail
	buffer []byte
	err    error // the error for the first entry that remover could not remove
}

// openFolder is a folder whose entries are being removed.
type openFolder struct {
	names   []string // listed names that the remover has not tried yet
	removed int      // number of entries removed since the names were last listed
}

func (r *remover) all() error {
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		here := r.open[len(r.open)-1]
		if left := len(here.names); left > 0 {
			name := here.names[left-1]
			here.names = here.names[:left-1]
			r.failed(r.remove(here, name), name)
			continue
		}
		if r.at.depth() == 0 {
			return r.err
		}
		if err := r.next(here); err != nil {
			return withPath(err, "remove", r.path)
		}
	}
}

// remove removes the entry name of the current folder. If the entry is a folder that is not empty,
// remove enters it.
func (r *remover) remove(here *openFolder, name string) error {
	// Removing an empty folder requires no permission for the folder itself. Therefore try to
	// remove a folder before opening it.
	for _, flags := range []int{0, unix.AT_REMOVEDIR} {
		switch err := unix.Unlinkat(r.at.fd(), name, flags); err {
		case nil, unix.ENOENT:
			here.removed++
			return nil
		case unix.EISDIR, unix.ENOTEMPTY, unix.EEXIST:
		default:
			return err
		}
	}
	fd, st, err := r.enter(name)
	if err == unix.ENOENT { // Another process removed it.
		here.removed++
		return nil
	}
	if err != nil {
		return err
	}
	r.at.down(fd, name, st)
	r.open = append(r.open, &openFolder{removed: 1}) // A nonzero count makes the method next list the folder.
	return nil
}

// next lists the folder again after remover has tried all listed names. If the folder is empty, or
// if remover removed no name from the last list, next returns to the parent and removes the folder
// there.
func (r *remover) next(here *openFolder) error {
	if here.removed > 0 {
		content, err := list(r.at.fd(), r.buffer, chunk)
		if err != unix.ENOENT { // ENOENT means that another process removed the folder.
			r.failed(err, "")
		}
		here.removed, here.names = 0, here.names[:0]
		for _, e := range content {
			here.names = append(here.names, e.Name)
		}
		if len(here.names) > 0 {
			return nil
		}
	}
	below, err := r.at.up()
	if err != nil {
		return err
	}
	unix.Close(below.fd)
	r.open = r.open[:len(r.open)-1]
	switch err := unix.Unlinkat(r.at.fd(), below.name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT:
		r.open[len(r.open)-1].removed++
	default:
		r.failed(err, below.name)
	}
	return nil
}

// enter opens a folder whose entries remover must remove. If necessary, it adds the owner's
// permissions.
func (r *remover) enter(name string) (int, *unix.Stat_t, error) {
	fd, err := r.openat(name, folderFlags)
	if err == unix.EACCES {
		// Without permission the folder can be opened only with O_PATH. A descriptor that was
		// opened with O_PATH does not support fchmod, so change the mode through /proc.
		if fd, err = r.openat(name, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return -1, nil, err
		}
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
		unix.Close(fd)
		if err != nil {
			return -1, nil, err
		}
		fd, err = r.openat(name, folderFlags)
	}
	if err != nil {
		return -1, nil, err
	}
	st := new(unix.Stat_t)
	err = unix.Fstat(fd, st)
	if err == nil && st.Mode&0o700 != 0o700 && os.Geteuid() != 0 {
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	return fd, st, nil
}

// openat opens a folder in the current one. It fails if the folder is a mount point.
func (r *remover) openat(name string, flags int) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat2(r.at.fd(), name, &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_XDEV})
	})
}

// failed records err if it is the first error. name is the entry in the current folder that caused
// the error. If name is empty, the current folder caused it.
func (r *remover) failed(err error, name string) {
	if err == nil || r.err != nil {
		return
	}
	path := filepath.Join(filepath.Dir(r.path), r.at.path(name))
	f := &fault.Error{Op: "remove", Subject: shortened(path), Err: err}
	switch {
	case err == unix.EXDEV, err == unix.EBUSY:
		f.Kind, f.Err, f.Hint = fault.Precondition, errors.New("a file system is mounted there"), fmt.Sprintf("umount %q", path)
	case err == unix.EPERM && os.Geteuid() == 0:
		f.Hint = fmt.Sprintf("chattr -R -ia %q", path)
	}
	if len(path) > maxPath {
		f.Hint = "" // No command accepts such a long path.
	}
	r.err = f
}
