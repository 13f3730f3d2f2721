package tree

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// maxNames is how many names one folder may hold, since a walk remembers them all.
const maxNames = 4 << 20

// Visitor is told what a walk finds.
type Visitor interface {
	// Enter is called for each folder, the top among them, with what is in it, before the folders in it are walked.
	Enter(folder *Folder, content []Entry) error
	// Leave is called when the folders in it have been walked.
	Leave(folder *Folder) error
}

// Chooser is a visitor that leaves things out: what Choose does not give is neither entered nor told
// to Enter. It may change content.
type Chooser interface {
	Choose(ctx context.Context, folder *Folder, content []Entry) []Entry
}

// Walk goes through a tree: a folder before what is in it, and names in the order of their bytes. It follows no links and has few files open however
// deep the tree is. It ends with the first error: a visitor's as it is, its own with the path in it. A tree that is changed meanwhile is an error of
// kind Precondition where that is noticed. top stays the caller's, open.
func Walk(ctx context.Context, top *os.File, visitor Visitor) error {
	fd, err := openAt(int(top.Fd()), ".", folderFlags, 0)
	if err != nil {
		return named(err, "read folder", top.Name())
	}
	return walk(ctx, fd, top.Name(), visitor)
}

// walk is Walk of a folder that is closed in the end.
func walk(ctx context.Context, top int, path string, visitor Visitor) error {
	at, st, err := newTrail(top)
	if err != nil {
		return named(err, "read folder", path)
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
	open    []entered // those of the trail
	visitor Visitor
	buffer  []byte
}

// entered is a folder that has been entered and not been left.
type entered struct {
	stat *unix.Stat_t
	left []string // folders in it that are still to be walked
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
		return w.failed(fault.Newf(fault.Exhausted, "it holds more than %d names", maxNames), "")
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

// failed says what of the walk went wrong: with a name in the folder that it has got to, or with that folder.
func (w *walker) failed(err error, name string) error {
	return named(err, "read folder", filepath.Join(w.path, w.at.path(name)))
}
