package tree

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Folder is the folder that a walk visits. It is valid only until Enter or Leave returns. Until
// then it is safe for concurrent use.
type Folder struct {
	Stat  *unix.Stat_t
	fd    int
	trail *trail
}

// IsTop reports whether the folder is the top of the walk.
func (f *Folder) IsTop() bool { return len(f.trail.steps) == 1 }

// Name returns the name of the folder in its parent. The name of the top is empty.
func (f *Folder) Name() string { return f.trail.steps[len(f.trail.steps)-1].name }

// Path returns the path from the top of the walk to the entry name in the folder. If name is empty,
// Path returns the path of the folder itself. The path of the top is ".".
func (f *Folder) Path(name string) string { return f.trail.path(name) }

// Open opens a regular file in the folder for reading. The caller must close it.
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

// Lstat returns the state of an entry. It fails if the kind of the entry has changed.
func (f *Folder) Lstat(e Entry) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != e.Kind {
		err = errChanged
	}
	return st, changed(err)
}

// Readlink returns the target of a symbolic link in the folder.
func (f *Folder) Readlink(name string) (string, error) {
	text := make([]byte, maxPath)
	n, err := unix.Readlinkat(f.fd, name, text)
	if err != nil {
		return "", changed(err)
	}
	return string(text[:n]), nil
}

// errChanged reports that another process removed, replaced or changed an entry during the
// operation.
var errChanged error = &fault.Error{Kind: fault.Precondition, Err: errors.New("it changed while it was read")}

// changed returns errChanged for kernel errors that indicate such a change. It returns other errors
// unchanged.
func changed(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ESTALE:
		return errChanged
	}
	return err
}
