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

// Remove removes a file, or a folder with all that is in it; where nothing is, it does nothing. Folders that their owner has no permission for are given it
// first. It follows no links and goes into nothing that is mounted inside. Others may change the tree meanwhile: what was moved out of it, it doesn't
// look for, and what they keep adding makes it fail. Others may also remove the same tree: all of them succeed.
//
// What can't be removed does not keep it from removing the rest; the first such thing is the error, with a hint where there is one.
func Remove(ctx context.Context, path string) error {
	folder, err := again(func() (int, error) {
		return unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return named(err, "remove", path)
	}
	above := os.NewFile(uintptr(folder), filepath.Dir(path))
	defer above.Close()
	return RemoveIn(ctx, above, filepath.Base(path))
}

// RemoveIn is Remove of a name in an open folder.
func RemoveIn(ctx context.Context, folder *os.File, name string) error {
	if badName(name) {
		return fault.New(fault.Invalid, "remove", name, "this can't be the name of a file")
	}
	r := &remover{ctx: ctx, path: filepath.Join(folder.Name(), name), buffer: make([]byte, 64<<10)}
	top, err := openAt(int(folder.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return named(err, "remove", r.path)
	}
	// The trail begins in the folder that holds the tree.
	if r.at, _, err = newTrail(top); err != nil {
		return named(err, "remove", r.path)
	}
	defer r.at.close()
	r.open = []*emptied{{names: []string{name}}}
	return r.all()
}

// chunk is how many names of a folder are dealt with at a time, for it may hold more than there is memory for.
const chunk = 2048

// remover removes a tree. Its trail begins in the folder that holds the tree.
type remover struct {
	ctx    context.Context
	path   string // of the tree
	at     *trail
	open   []*emptied // the folders of the trail
	buffer []byte
	first  error // that something could not be removed for
}

// emptied is a folder that is being emptied.
type emptied struct {
	names   []string // of those that were listed last, what has not been dealt with
	removed int      // how many of them are gone
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
			return r.first
		}
		if err := r.next(here); err != nil {
			return named(err, "remove", r.path)
		}
	}
}

// remove removes a name of the folder that the trail has got to, or goes down into it.
func (r *remover) remove(here *emptied, name string) error {
	for _, how := range []int{0, unix.AT_REMOVEDIR} { // an empty folder is gone at once, also where it can't be opened
		switch err := unix.Unlinkat(r.at.fd(), name, how); err {
		case nil, unix.ENOENT:
			here.removed++
			return nil
		case unix.EISDIR, unix.ENOTEMPTY, unix.EEXIST:
		default:
			return err
		}
	}
	fd, st, err := r.enter(name)
	if err == unix.ENOENT { // somebody else has removed it since
		here.removed++
		return nil
	}
	if err != nil {
		return err
	}
	r.at.down(fd, name, st)
	r.open = append(r.open, &emptied{removed: 1}) // the first list is still to come
	return nil
}

// next lists a folder again when all that had been listed is dealt with, until it is empty or nothing more can be removed. Then it leaves it and removes
// it.
func (r *remover) next(here *emptied) error {
	if here.removed > 0 {
		content, err := list(r.at.fd(), r.buffer, chunk)
		if err != unix.ENOENT { // so the kernel says for a folder that somebody else has removed
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

// enter opens a folder to empty it, and gives its owner the permission for that.
func (r *remover) enter(name string) (int, *unix.Stat_t, error) {
	fd, err := r.openat(name, folderFlags)
	if err == unix.EACCES {
		// Without permission it can only be pointed at, and changed through that.
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

// openat opens a folder in that which the trail has got to, unless something is mounted there.
func (r *remover) openat(name string, flags int) (int, error) {
	return again(func() (int, error) {
		return unix.Openat2(r.at.fd(), name, &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_XDEV})
	})
}

// failed remembers the first thing that could not be removed: a name in the folder that the trail has got to, or that folder.
func (r *remover) failed(err error, name string) {
	if err == nil || r.first != nil {
		return
	}
	path := filepath.Join(filepath.Dir(r.path), r.at.path(name))
	f := &fault.Error{Op: "remove", Subject: shortened(path), Err: err}
	switch {
	case err == unix.EXDEV, err == unix.EBUSY:
		f.Kind, f.Err, f.Hint = fault.Precondition, errors.New("something is mounted there"), fmt.Sprintf("umount %q", path)
	case err == unix.EPERM && os.Geteuid() == 0:
		f.Hint = fmt.Sprintf("chattr -R -ia %q", path)
	}
	if len(path) > maxPath {
		f.Hint = "" // no command could be given it
	}
	r.first = f
}
