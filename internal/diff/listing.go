package diff

import (
	"io/fs"
	"iter"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// MaxPath and maxName are Linux's limits for the length of a path and of a name in it, in bytes.
const (
	MaxPath = 4096
	maxName = 255
)

// listing reads and checks the entries of a tree, one at a time.
type listing struct {
	next  func() (Entry, error, bool)
	close func()
	entry Entry  // last entry of the listing
	head  *Entry // points to entry until the entry is consumed
	ended bool
}

func open(entries iter.Seq2[Entry, error]) *listing {
	next, stop := iter.Pull2(entries)
	return &listing{next: next, close: stop}
}

// fill reads the next entry into head, unless head is set.
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

// check rejects an entry that can't follow the last entry. The comparison relies on the order, and
// users of the result rely on valid paths.
func (l *listing) check(e Entry) error {
	if !validPath(e.Path) {
		return fault.Newf(fault.Corrupt, "%.200q is not a valid path", e.Path)
	}
	if last := l.entry.Path; last != "" {
		if comparePaths(last, e.Path) >= 0 {
			return fault.Newf(fault.Corrupt, "%.200q is listed after %.200q", e.Path, last)
		}
		if !l.entry.Mode.IsDir() && strings.HasPrefix(e.Path, last) && e.Path[len(last)] == '/' {
			return fault.Newf(fault.Corrupt, "%.200q is listed below %.200q, which is not a directory", e.Path, last)
		}
	}
	if e.Size < 0 || len(e.Link) >= MaxPath || e.Mode&fs.ModeSymlink != 0 && (e.Link == "" || strings.ContainsRune(e.Link, 0)) {
		return fault.Newf(fault.Corrupt, "%.200q is listed with an invalid size or link target", e.Path)
	}
	return nil
}

// validPath reports whether a path is relative, clean and below the root. Names can be invalid
// UTF-8.
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

// comparePaths compares two paths in depth-first order. It compares them by their bytes, except
// that the slash comes before all other bytes.
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
