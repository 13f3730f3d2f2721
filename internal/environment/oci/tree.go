package oci

import (
	"archive/tar"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// entryID identifies an entry by its layer and its index.
type entryID struct{ layer, entry int }

// node is a path in the flattened file system.
type node struct {
	children map[string]*node // Of a directory. Otherwise nil.
	kind     byte             // Type of the entry, as in tar.
	entry    entryID          // For a hard link, the entry of the target.
	implied  bool             // A directory without an entry.
	layer    int              // The last layer that changed this path.
	link     string           // Target of a symbolic link.
}

// tree is the file system that results from the layers so far. Callers add the lowest layer first.
type tree struct {
	root  *node
	nodes int
}

func newTree() *tree { return &tree{root: newFolder(0)} }

func newFolder(layer int) *node {
	return &node{children: map[string]*node{}, kind: tar.TypeDir, implied: true, layer: layer}
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	maxLinks = 40 // number of links that are followed for one path, as in Linux
	maxDepth = 1024
)

// add adds an entry. The entry replaces the content of lower layers at its path. However, a
// directory that replaces a directory keeps the children.
func (t *tree) add(header *tar.Header, at entryID) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return errors.New(`the name contains ".."`)
	}
	dirName, base := path.Split(path.Clean("/" + header.Name))
	dir, err := t.folder(dirName, at.layer, 0)
	if err != nil {
		return err
	}
	switch {
	case base == "":
		if header.Typeflag == tar.TypeDir {
			t.root.entry, t.root.implied = at, false
		}
		return nil
	case base == opaque:
		dir.hide(at.layer)
		return nil
	case strings.HasPrefix(base, whiteout):
		name := strings.TrimPrefix(base, whiteout)
		if gone := dir.children[name]; gone != nil && gone.hide(at.layer) {
			delete(dir.children, name)
		}
		return nil
	}
	added := &node{kind: header.Typeflag, entry: at, layer: at.layer}
	switch header.Typeflag {
	case tar.TypeDir:
		if old := dir.children[base]; old != nil && old.kind == tar.TypeDir {
			old.entry, old.implied, old.layer = at, false, at.layer
			return nil
		}
		added.children = map[string]*node{}
	case tar.TypeSymlink:
		added.link = header.Linkname
	case tar.TypeLink:
		target, err := t.find(header.Linkname, at.layer)
		if err != nil {
			return err
		}
		added.kind, added.entry, added.link = target.kind, target.entry, target.link
	}
	dir.children[base] = added
	return t.count()
}

func (t *tree) count() error {
	if t.nodes++; t.nodes > MaxEntries {
		return fault.Newf(fault.Exhausted, "the image has more than %d files", MaxEntries)
	}
	return nil
}

// hide removes everything at and below n that comes from lower layers. It reports whether nothing
// remains.
func (n *node) hide(layer int) bool {
	for name, child := range n.children {
		if child.hide(layer) {
			delete(n.children, name)
		}
	}
	if n.layer == layer {
		return false
	}
	n.implied = true
	return len(n.children) == 0
}

// folder returns the directory at a path. It creates missing directories, and follows symbolic
// links within the tree. Tools that unpack layers on top of each other behave in the same way.
func (t *tree) folder(name string, layer, links int) (*node, error) {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	if len(parts) > maxDepth {
		return nil, errors.New("the directories are nested too deep")
	}
	at := t.root
	for i, part := range parts {
		if part == "" {
			continue
		}
		next := at.children[part]
		if next == nil {
			next = newFolder(layer)
			at.children[part] = next
			if err := t.count(); err != nil {
				return nil, err
			}
		}
		switch next.kind {
		case tar.TypeDir:
			at = next
		case tar.TypeSymlink:
			if links >= maxLinks {
				return nil, errors.New("too many symbolic links")
			}
			target := next.link
			if !path.IsAbs(target) {
				target = path.Join(path.Join(parts[:i]...), target) // ".." at the root stays at the root
			}
			return t.folder(path.Join("/", target, path.Join(parts[i+1:]...)), layer, links+1)
		default:
			return nil, errors.New("its parent is not a directory")
		}
	}
	return at, nil
}

// find returns the target of a hard link.
func (t *tree) find(name string, layer int) (*node, error) {
	dirName, base := path.Split(path.Clean("/" + name))
	dir, err := t.folder(dirName, layer, 0)
	if err != nil {
		return nil, err
	}
	found := dir.children[base]
	switch {
	case found == nil:
		return nil, errors.New("hard link to a missing file")
	case found.kind == tar.TypeDir:
		return nil, errors.New("hard link to a directory")
	}
	return found, nil
}

// entries returns the remaining entries with their final names. If an entry has several names, the
// file has hard links. The tree can't be used after this call.
func (t *tree) entries() map[entryID][]string {
	names := make(map[entryID][]string, t.nodes)
	var walk func(n *node, name string)
	walk = func(n *node, name string) {
		if !n.implied {
			names[n.entry] = append(names[n.entry], name)
		}
		for child, next := range n.children {
			walk(next, path.Join(name, child))
		}
	}
	walk(t.root, ".")
	for _, of := range names {
		slices.Sort(of)
	}
	t.root = nil
	return names
}

func corrupt(name string, err error) error {
	if known := (*fault.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &fault.Error{Op: "read layer at", Subject: name[:min(len(name), 200)], Kind: fault.Corrupt, Err: err}
}
