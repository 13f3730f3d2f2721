package diff

import (
	"io/fs"
	"iter"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// MaxPath is the length of the longest path, in bytes, and maxName that of a name in it. They are Linux's.
const (
	MaxPath = 4096
	maxName = 255
)

// listing reads the entries of a tree one by one, and checks them.
type listing struct {
	next  func() (Entry, error, bool)
	close func()
	entry Entry  // the last that was listed
	head  *Entry // it, until it has been taken
	ended bool
}

func open(entries iter.Seq2[Entry, error]) *listing {
	next, stop := iter.Pull2(entries)
	return &listing{next: next, close: stop}
}

// fill makes head the next entry, unless there is one already.
func (l *listing) fill() error {
	if l.head != nil || l.ended {
		return nil
	}
	e, err, ok := l.next()
	switch {
	case !ok:
		l.ended = true
		return nil
	case err != nil:
		return err
	}
	if err := l.check(e); err != nil {
		return err
	}
	l.entry = e
	l.head = &l.entry
	return nil
}

// check refuses an entry that no tree can have after the last one. The merge relies on the order, and whoever uses the result on the paths.
func (l *listing) check(e Entry) error {
	if !validPath(e.Path) {
		return fault.Newf(fault.Corrupt, "%.200q is no path of a tree", e.Path)
	}
	if last := l.entry.Path; last != "" {
		if comparePaths(last, e.Path) >= 0 {
			return fault.Newf(fault.Corrupt, "%.200q is listed after %.200q", e.Path, last)
		}
		if !l.entry.Mode.IsDir() && strings.HasPrefix(e.Path, last) && e.Path[len(last)] == '/' {
			return fault.Newf(fault.Corrupt, "%.200q is listed below %.200q, which is no directory", e.Path, last)
		}
	}
	if e.Size < 0 || len(e.Link) >= MaxPath || e.Mode&fs.ModeSymlink != 0 && (e.Link == "" || strings.ContainsRune(e.Link, 0)) {
		return fault.Newf(fault.Corrupt, "%.200q is listed with what no file has", e.Path)
	}
	return nil
}

// validPath tells whether a path leads from the root to something below it. Names need not be UTF-8.
func validPath(path string) bool {
	if path == "" || len(path) >= MaxPath || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > maxName {
			return false
		}
	}
	return true
}

// comparePaths orders paths depth first: as bytes, but for the slash, which comes before all of them.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}
