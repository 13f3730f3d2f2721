package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Folder is the folder that a walk is in. It is good until Enter or Leave returns, and for use by several goroutines.
type Folder struct {
	Stat  *unix.Stat_t
	fd    int
	trail *trail
}

// IsTop tells whether it is the folder that the walk began in.
func (f *Folder) IsTop() bool { return len(f.trail.steps) == 1 }

// Name is its name in the folder above; the top has none.
func (f *Folder) Name() string { return f.trail.steps[len(f.trail.steps)-1].name }

// Path is its path from the top, or with a name the path of that name in it. The top is ".".
func (f *Folder) Path(name string) string { return f.trail.path(name) }

// Open opens a regular file in it for reading, and describes it. The caller closes it.
func (f *Folder) Open(name string) (fd int, st unix.Stat_t, err error) {
	fd, err = openAt(f.fd, name, unix.O_RDONLY, 0)
	if err != nil {
		return -1, st, changed(err)
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errChanged
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// Lstat describes what has a name in it, which is of the kind that the folder's entry said.
func (f *Folder) Lstat(e Entry) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != e.Kind {
		err = errChanged
	}
	return st, changed(err)
}

// Readlink gives the text of a symbolic link in it.
func (f *Folder) Readlink(name string) (string, error) {
	text := make([]byte, maxPath)
	n, err := unix.Readlinkat(f.fd, name, text)
	if err != nil {
		return "", changed(err)
	}
	return string(text[:n]), nil
}

// errChanged says that what was there a moment ago is no longer, or is no longer the same.
var errChanged error = &fault.Error{Kind: fault.Precondition, Err: errors.New("it changed while it was read")}

// changed gives for the kernel's words for that errChanged. Other errors stay as they are.
func changed(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ESTALE:
		return errChanged
	}
	return err
}
