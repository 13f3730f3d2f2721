package pyro

import (
	"bytes"
	"context"
	"io/fs"
	"path"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// FS gives access to the files below /workspace. It is an [fs.FS] that also has methods for
// writing. As in io/fs, names are relative to /workspace and use slashes, and "." is /workspace
// itself.
//
// Symbolic links are followed within /workspace. A link that leads out of /workspace causes an
// error of kind Permission. Errors have the type *[fs.PathError]. With errors.Is, they match the
// errors of io/fs and of this package, for example both [fs.ErrNotExist] and [ErrNotFound].
//
// An FS is safe for concurrent use. An FS needs no Close, but close the files that it opens.
type FS struct {
	workspace *Workspace
	ctx       context.Context
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// FS returns the files of the workspace. The workspace must be running or paused.
func (w *Workspace) FS() *FS { return &FS{w, context.Background()} }

// WithContext returns a copy of f. When ctx ends, the operations of the copy end, and so do reads
// from files that the copy has opened.
func (f *FS) WithContext(ctx context.Context) *FS { return &FS{f.workspace, ctx} }

// do calls the function do with a connection to the workspace's files and with the path for a name.
func (f *FS) do(op, name string, do func(t *workspace.Tree, path string) error) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	err := error(errNoHandle)
	if p := f.workspace.pyro; p != nil {
		var t *workspace.Tree
		if t, err = p.workspaces.Tree(f.ctx, f.workspace.WorkspaceID); err == nil {
			defer t.Close()
			err = do(t, inVolume(name))
		}
	}
	return f.failed(op, name, err)
}

// failed converts the error of an operation to an *fs.PathError.
func (f *FS) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: fileError{causeOf(f.ctx, err)}}
}

// fileError is an error that also matches the errors of io/fs.
type fileError struct{ error }

func (e fileError) Unwrap() error { return e.error }

func (e fileError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return fault.KindOf(e.error) == NotFound
	case fs.ErrPermission:
		return fault.KindOf(e.error) == Permission
	case fs.ErrExist:
		return fault.KindOf(e.error) == Exists
	case fs.ErrInvalid:
		return fault.KindOf(e.error) == Invalid
	}
	return false
}

// inVolume converts a name of io/fs to a path for a workspace.Tree, which uses "" for the top
// folder.
func inVolume(name string) string {
	if name == "." {
		return ""
	}
	return name
}

// Open opens a file or a folder for reading. A file also implements [io.Seeker], and a folder
// implements [fs.ReadDirFile]. If the file is replaced after the first Read, reads return the old
// content until Seek changes the offset.
func (f *FS) Open(name string) (fs.File, error) {
	info, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &openFolder{fsys: f, name: name, info: info}, nil
	}
	if !info.Mode().IsRegular() {
		return nil, f.failed("open", name, fault.Newf(Precondition, "it is not a regular file"))
	}
	return &openFile{fsys: f, name: name, info: info}, nil
}

// Stat describes the named file. It follows symbolic links.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name) }

func (f *FS) stat(op, name string) (info fs.FileInfo, err error) {
	err = f.do(op, name, func(t *workspace.Tree, at string) error {
		e, err := t.Stat(f.ctx, at)
		info = fileInfo{path.Base(name), e}
		return err
	})
	return info, err
}

// Lstat describes the named file. It does not follow symbolic links.
func (f *FS) Lstat(name string) (info fs.FileInfo, err error) {
	err = f.do("lstat", name, func(t *workspace.Tree, at string) error {
		e, err := t.Lstat(f.ctx, at)
		info = fileInfo{path.Base(name), e}
		return err
	})
	return info, err
}

// ReadLink returns the target of a symbolic link.
func (f *FS) ReadLink(name string) (target string, err error) {
	err = f.do("readlink", name, func(t *workspace.Tree, at string) error {
		e, err := t.Lstat(f.ctx, at)
		if err == nil && e.FileMode()&fs.ModeSymlink == 0 {
			err = fault.Newf(Invalid, "it is not a symbolic link")
		}
		target = e.Target
		return err
	})
	return target, err
}

// ReadDir lists a folder, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries := []fs.DirEntry{}
	err := f.do("readdir", name, func(t *workspace.Tree, at string) error {
		all, err := t.List(f.ctx, at)
		for _, e := range all {
			entries = append(entries, fs.FileInfoToDirEntry(fileInfo{e.Path, e}))
		}
		return err
	})
	return entries, err
}

// ReadFile reads a whole file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	var content bytes.Buffer
	err := f.do("read", name, func(t *workspace.Tree, at string) error {
		return t.Read(f.ctx, at, 0, &content)
	})
	if err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// WriteFile creates or replaces a file atomically: a reader sees either the old content or the new
// content. It creates missing folders. If perm is 0, an existing file keeps its permissions, and a
// new file gets 0644. If the file is a symbolic link, WriteFile neither follows nor replaces the
// link, but fails.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return f.do("write", name, func(t *workspace.Tree, at string) error {
		if at == "" {
			return errRoot
		}
		return t.Write(f.ctx, at, data, perm.Perm())
	})
}

// MkdirAll creates a folder and its missing parent folders. The parent folders get the permissions
// 0755. If the folder already exists, MkdirAll returns nil.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	return f.do("mkdir", name, func(t *workspace.Tree, at string) error {
		if at == "" {
			return nil
		}
		return t.MakeFolder(f.ctx, at, perm.Perm())
	})
}

// Remove removes a file, a link or an empty folder.
func (f *FS) Remove(name string) error {
	return f.do("remove", name, func(t *workspace.Tree, at string) error {
		if at == "" {
			return errRoot
		}
		return t.Remove(f.ctx, at)
	})
}

// RemoveAll removes the named file or folder with everything below it. If RemoveAll fails, it
// removes nothing. If the file does not exist, RemoveAll returns nil.
func (f *FS) RemoveAll(name string) error {
	return f.do("remove", name, func(t *workspace.Tree, at string) error {
		if at == "" {
			return errRoot
		}
		return t.RemoveAll(f.ctx, at)
	})
}

var errRoot = fault.Newf(Invalid, "it is the workspace's own folder")
