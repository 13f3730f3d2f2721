package agent

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// Where folders of the place are listed and made.
const (
	listPath   = "/list"
	folderPath = "/folder"
)

// serveIn serves a call on the file system that the place's processes see.
func (s *Server) serveIn(serve func(root int, w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !admit(w, r) {
			return
		}
		name := r.URL.Query().Get("path")
		if err := volume.CheckPath(name); err != nil {
			refuse(w, invalid(err.Error()))
			return
		}
		root, err := s.place.Root()
		if err == nil {
			err = serve(root, w, r)
		}
		refuse(w, err)
	}
}

// list gives what is at a path, whose last part is followed where it is a link, and what is in it to a depth; 0: that itself alone, and no link is followed.
func (s *Server) list(root int, w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	q := r.URL.Query()
	depth, err := strconv.ParseUint(q.Get("depth"), 10, 31)
	if err != nil {
		return invalid(err.Error())
	}
	l, err := volume.ListIn(root, s.place.Path(q.Get("path")), int(depth))
	if err != nil {
		return err
	}
	defer l.Close()
	s.generate(w, r, func(to io.Writer) (string, error) { return "", l.Write(to) })
	return nil
}

// makeFolder makes a folder and those above it. One that is there stays as it is.
func (s *Server) makeFolder(root int, _ http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	return volume.MakeFolder(root, path.Clean(s.place.Path(r.URL.Query().Get("path"))))
}

// remove removes what is at a path with all below it. A link is removed, and not what it leads to.
func (s *Server) remove(root int, name string) error {
	if err := volume.CheckPath(name); err != nil {
		return invalid(err.Error())
	}
	if name = path.Clean(name); name == "/" || name == Workspace {
		return invalid("the root and the workspace can't be removed: remove what is in them")
	}
	name = path.Clean(s.place.Path(name))
	folder, last := path.Split(name)
	if len(last) > unix.NAME_MAX { // of which gVisor says that it is not there
		return failedTo("remove", name, unix.ENAMETOOLONG)
	}
	dir, err := volume.OpenIn(root, folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeAt(int(dir.Fd()), last, name)
}

// removeAt removes what has a name in a folder. It opens no link, and goes down as far as paths can.
func removeAt(dir int, last, name string) error {
	err := unix.Unlinkat(dir, last, 0)
	if err == nil || err != unix.EISDIR && err != unix.EPERM {
		return failedTo("remove", name, err)
	}
	fd, err := unix.Openat(dir, last, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return failedTo("remove", name, unix.EPERM) // a file that must not be removed
	}
	if err != nil {
		return failedTo("remove", name, err)
	}
	within := os.NewFile(uintptr(fd), name)
	err = removeWithin(within, name)
	within.Close()
	if err != nil {
		return err
	}
	return failedTo("remove", name, unix.Unlinkat(dir, last, unix.AT_REMOVEDIR))
}

// removeWithin empties a folder, some names at a time and from its start each time: not all file systems go on where they were once names are gone. What others
// remove meanwhile is gone, too.
func removeWithin(dir *os.File, name string) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return failedTo("read", name, err)
		}
		names, err := dir.Readdirnames(1024)
		for _, n := range names {
			if err := removeAt(int(dir.Fd()), n, path.Join(name, n)); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return failedTo("read", name, err)
		}
	}
}

func failedTo(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
