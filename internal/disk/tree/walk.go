package tree

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxNames limits the number of names in one folder, because a walk keeps all of them in memory.
const maxNames = 4 << 20

// Visitor receives the folders of a walk.
type Visitor interface {
	// Enter is called for each folder, with the folder's content. The calls begin with the top. A
	// folder comes before its subfolders.
	Enter(folder *Folder, content []Entry) error
	// Leave is called for each folder, after the calls for its subfolders.
	Leave(folder *Folder) error
}

// Chooser is a visitor that excludes entries. The walk passes only the entries that Choose returns
// to Enter, and enters only those folders. Choose is allowed to modify content.
type Chooser interface {
	Choose(ctx context.Context, folder *Folder, content []Entry) []Entry
}

// Walk visits a tree: each folder before its content, and names in byte order. It follows no
// symbolic links. It has few files open, even in a deep tree.
//
// Walk stops at the first error. It returns errors of the visitor unchanged, and adds the path to
// its own errors. If Walk detects that the tree changes, the error has kind Precondition. Walk does
// not close top.
func Walk(ctx context.Context, top *os.File, visitor Visitor) error {
	fd, err := openAt(int(top.Fd()), ".", folderFlags, 0)
	if err != nil {
		return withPath(err, "read folder", top.Name())
	}
	return walk(ctx, fd, top.Name(), visitor)
}

// walk is like Walk, but closes top.
func walk(ctx context.Context, top int, path string, visitor Visitor) error {
	at, st, err := newTrail(top)
	if err != nil {
		return withPath(err, "read folder", path)
	}
	defer at.close()
	w := &walker{ctx: ctx, path: path, at: at, visitor: visitor, buffer: make([]byte, 64<<10)}
	if err := w.enter(st); err != nil {
		return err
	}
	for len(w.open) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		here := &w.open[len(w.open)-1]
		if len(here.left) == 0 {
			if err := w.leave(); err != nil {
				return err
			}
			continue
		}
		name := here.left[0]
		here.left = here.left[1:]
		if err := w.down(name); err != nil {
			return err
		}
	}
	return nil
}

type walker struct {
	ctx     context.Context
	path    string // of the top
	at      *trail
	open    []entered // the folders of the trail
	visitor Visitor
	buffer  []byte
}

// entered is a folder between Enter and Leave.
type entered struct {
	stat *unix.Stat_t
	left []string // subfolders that the walk has not entered yet
}

func (w *walker) down(name string) error {
	fd, err := openAt(w.at.fd(), name, folderFlags, 0)
	if err != nil {
		return w.failed(changed(err), name)
	}
	st := new(unix.Stat_t)
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd)
		return w.failed(err, name)
	}
	w.at.down(fd, name, st)
	return w.enter(st)
}

func (w *walker) enter(st *unix.Stat_t) error {
	content, err := list(w.at.fd(), w.buffer, maxNames)
	if err != nil {
		return w.failed(changed(err), "")
	}
	if len(content) > maxNames {
		return w.failed(fault.Newf(fault.Exhausted, "the folder has more than %d names", maxNames), "")
	}
	if chooser, ok := w.visitor.(Chooser); ok {
		content = chooser.Choose(w.ctx, &Folder{st, w.at.fd(), w.at}, content)
	}
	var folders []string
	for _, e := range content {
		if e.Kind == unix.S_IFDIR {
			folders = append(folders, e.Name)
		}
	}
	w.open = append(w.open, entered{st, folders})
	return w.visitor.Enter(&Folder{st, w.at.fd(), w.at}, content)
}

func (w *walker) leave() error {
	here := w.open[len(w.open)-1]
	if err := w.visitor.Leave(&Folder{here.stat, w.at.fd(), w.at}); err != nil {
		return err
	}
	w.open = w.open[:len(w.open)-1]
	if w.at.depth() == 0 {
		return nil
	}
	below, err := w.at.up()
	if err != nil {
		return w.failed(err, "")
	}
	unix.Close(below.fd)
	return nil
}

// failed adds a path to an error: the path of the entry name in the current folder. If name is
// empty, it adds the path of the current folder.
func (w *walker) failed(err error, name string) error {
	return withPath(err, "read folder", filepath.Join(w.path, w.at.path(name)))
}
