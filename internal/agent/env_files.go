package agent

import (
	"errors"
	"net/http"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/content"
)

// Paths of the calls that list entries, create folders and rename entries.
const (
	listPath   = "/list"
	folderPath = "/folder"
	renamePath = "/rename"
)

// serveIn returns a handler for a call on the file system that processes see.
func (s *Server) serveIn(do func(root int, w *content.Answer, r *http.Request) error) http.HandlerFunc {
	return s.serve(func(w *content.Answer, r *http.Request) error {
		if err := volume.CheckPath(r.URL.Query().Get("path")); err != nil {
			return invalid(err.Error())
		}
		root, err := s.env.Root()
		if err != nil {
			return err
		}
		return do(root, w, r)
	})
}

// list writes the entry at a path, and the entries below it down to the requested depth. It follows
// a link at the end of the path. With depth 0, list writes only the entry itself and does not
// follow a link at the end.
func (s *Server) list(root int, w *content.Answer, r *http.Request) error {
	if r.Method != http.MethodGet {
		return errMethod
	}
	q := r.URL.Query()
	depth, err := strconv.ParseUint(q.Get("depth"), 10, 31)
	if err != nil {
		return invalid(err.Error())
	}
	l, err := volume.ListIn(root, s.env.Path(q.Get("path")), int(depth))
	if err != nil {
		return err
	}
	defer l.Close()
	return s.generate(w, r, l.Write)
}

// makeFolder creates a folder and its missing parents. If the folder exists, makeFolder does
// nothing.
func (s *Server) makeFolder(root int, _ *content.Answer, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	return volume.MakeFolder(root, path.Clean(s.env.Path(r.URL.Query().Get("path"))))
}

// remove removes the entry at a path and everything below it. It removes a link itself, not its
// target.
func (s *Server) remove(root int, name string) error {
	name, err := s.entryPath("remove", name)
	if err != nil {
		return err
	}
	folder, last := path.Split(name)
	dir, err := volume.OpenIn(root, folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return volume.RemoveTree(int(dir.Fd()), last, name)
}

// rename moves an entry to a free path. See [volume.Rename].
func (s *Server) rename(root int, _ *content.Answer, r *http.Request) error {
	if r.Method != http.MethodPut {
		return errMethod
	}
	q := r.URL.Query()
	from, err := s.entryPath("rename", q.Get("path"))
	if err != nil {
		return err
	}
	to, err := s.entryPath("rename", q.Get("to"))
	if err != nil {
		return err
	}
	return volume.Rename(root, from, to)
}

// entryPath checks the path of an entry that the operation op removes or renames. It returns the
// path of the entry below the root.
func (s *Server) entryPath(op, name string) (string, error) {
	if err := volume.CheckPath(name); err != nil {
		return "", invalid(err.Error())
	}
	name = path.Clean(name)
	_, err := s.env.Volume()
	if name == "/" || name == Workspace && !errors.Is(err, ErrNoVolume) {
		return "", invalid("the root and the workspace can't be removed or renamed; change their content instead")
	}
	name = path.Clean(s.env.Path(name))
	if len(path.Base(name)) > unix.NAME_MAX { // gVisor would return ENOENT instead
		return "", &os.PathError{Op: op, Path: name, Err: unix.ENAMETOOLONG}
	}
	return name, nil
}
