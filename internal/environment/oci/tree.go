package oci

import (
	"archive/tar"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// entryID identifies an entry by its layer and its index.
type entryID struct{ layer, entry int }

// node is a path in the flattened file system. It does not contain its full path, because the paths
// of a hostile image can need far more memory than its nodes.
type node struct {
	parent   *node            // Nil for the root.
	name     string           // Last part of the path.
	size     int              // Length of the path, with a slash before each part.
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
	text  int // length of all names and link targets, in bytes
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
	maxName  = 255  // as in Linux, in bytes
	maxPath  = 4096 // names, link targets and paths are shorter, as in Linux, in bytes
)

// maxText limits the length of all names and link targets of an image, in bytes. Tests change it.
var maxText = 128 << 20

// add adds an entry. The entry replaces the content of lower layers at its path. However, a
// directory that replaces a directory keeps the children.
func (t *tree) add(header *tar.Header, at entryID) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return errors.New(`the name contains ".."`)
	}
	if len(header.Name) >= maxPath || len(header.Linkname) >= maxPath {
		return errLong
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
		added.link = strings.Clone(header.Linkname) // archive/tar returns a part of a larger string
	case tar.TypeLink:
		target, err := t.find(header.Linkname, at.layer)
		if err != nil {
			return err
		}
		added.kind, added.entry, added.link = target.kind, target.entry, target.link
	}
	return t.put(dir, base, added)
}

var errLong = errors.New("the name or the link is too long")

// put adds a node to a directory.
func (t *tree) put(dir *node, name string, n *node) error {
	n.parent, n.name, n.size = dir, strings.Clone(name), dir.size+1+len(name)
	if len(name) > maxName || n.size >= maxPath {
		return errLong
	}
	dir.children[n.name] = n
	t.nodes++
	t.text += len(name) + len(n.link)
	switch {
	case t.nodes > MaxEntries:
		return fault.Newf(fault.Exhausted, "the image has more than %d files", MaxEntries)
	case t.text > maxText:
		return fault.Newf(fault.Exhausted, "the names and links of the image have more than %d MiB", maxText>>20)
	}
	return nil
}

// path returns the path of a node below the root. The path of the root is ".".
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	text, at := make([]byte, n.size), n.size
	for ; n.parent != nil; n = n.parent {
		at -= copy(text[at-len(n.name):], n.name) + 1
		text[at] = '/'
	}
	return string(text[1:])
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
	if len(name) >= maxPath {
		return nil, errLong
	}
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
			if err := t.put(at, part, next); err != nil {
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

// entries returns the remaining entries with their final paths. If an entry has several paths, the
// file has hard links. The tree can't be used after this call.
func (t *tree) entries() map[entryID][]*node {
	found := make(map[entryID][]*node, t.nodes)
	var walk func(n *node)
	walk = func(n *node) {
		if !n.implied {
			found[n.entry] = append(found[n.entry], n)
		}
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			walk(n.children[name])
		}
		n.children = nil
	}
	walk(t.root)
	t.root = nil
	return found
}

func corrupt(name string, err error) error {
	if known := (*fault.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &fault.Error{Op: "read layer at", Subject: name[:min(len(name), 200)], Kind: fault.Corrupt, Err: err}
}
