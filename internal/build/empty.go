package build

import "io/fs"

// emptyTree is a [view.Tree] without files.
type emptyTree struct{}

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

func (emptyTree) Open(name string) (fs.File, error)          { return nil, missing("open", name) }
func (emptyTree) ReadDir(name string) ([]fs.DirEntry, error) { return nil, missing("readdir", name) }
func (emptyTree) ReadLink(name string) (string, error)       { return "", missing("readlink", name) }
func (emptyTree) Lstat(name string) (fs.FileInfo, error)     { return nil, missing("lstat", name) }
func (emptyTree) Xattrs(name string) (map[string]string, error) {
	return nil, missing("getxattr", name)
}
