package oci

import (
	"archive/tar"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// place says where an entry stands.
type place struct{ layer, entry int }

// node is one path of the flattened file system.
type node struct {
	children map[string]*node // of a folder
	kind     byte             // as in tar
	place    place            // of the entry that describes it; of a hard link, that of the file
	implied  bool             // a folder that no entry describes
	layer    int              // that last spoke of it
	link     string           // target of a symbolic link
}

// tree is the file system that layers make together. Layers are added from the lowest up.
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
	maxLinks = 40 // that lead to a path, as in Linux
	maxDepth = 1024
)

// add puts one entry into the tree. What a layer says of a path replaces what lower ones said, but a folder keeps its children.
func (t *tree) add(header *tar.Header, at place) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return errors.New("name has a part that climbs")
	}
	dirName, base := path.Split(path.Clean("/" + header.Name))
	dir, err := t.folder(dirName, at.layer, 0)
	if err != nil {
		return err
	}
	switch {
	case base == "":
		if header.Typeflag == tar.TypeDir {
			t.root.place, t.root.implied = at, false
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
	added := &node{kind: header.Typeflag, place: at, layer: at.layer}
	switch header.Typeflag {
	case tar.TypeDir:
		if old := dir.children[base]; old != nil && old.kind == tar.TypeDir {
			old.place, old.implied, old.layer = at, false, at.layer
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
		added.kind, added.place, added.link = target.kind, target.place, target.link
	}
	dir.children[base] = added
	return t.count()
}

func (t *tree) count() error {
	if t.nodes++; t.nodes > MaxEntries {
		return fault.Newf(fault.Exhausted, "the image holds more than %d files", MaxEntries)
	}
	return nil
}

// hide takes away what layers below the given one put at n or beneath, and tells whether nothing is left.
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

// folder gives the folder at a path and makes what is missing of it. Symbolic links are followed inside the tree, as they are where layers are unpacked
// onto each other.
func (t *tree) folder(name string, layer, links int) (*node, error) {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	if len(parts) > maxDepth {
		return nil, errors.New("too many folders in each other")
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
				target = path.Join(path.Join(parts[:i]...), target) // as .. at the root is the root, below
			}
			return t.folder(path.Join("/", target, path.Join(parts[i+1:]...)), layer, links+1)
		default:
			return nil, errors.New("a folder on its way is a file")
		}
	}
	return at, nil
}

// find gives what a hard link leads to.
func (t *tree) find(name string, layer int) (*node, error) {
	dirName, base := path.Split(path.Clean("/" + name))
	dir, err := t.folder(dirName, layer, 0)
	if err != nil {
		return nil, err
	}
	found := dir.children[base]
	switch {
	case found == nil:
		return nil, errors.New("hard link to nothing")
	case found.kind == tar.TypeDir:
		return nil, errors.New("hard link to a folder")
	}
	return found, nil
}

// places tells which entries are left, each with the names that it has in the end; a file that has several is hard linked. It drops the tree.
func (t *tree) places() map[place][]string {
	names := make(map[place][]string, t.nodes)
	var walk func(n *node, name string)
	walk = func(n *node, name string) {
		if !n.implied {
			names[n.place] = append(names[n.place], name)
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
