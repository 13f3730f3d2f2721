package erofs

import (
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"syscall"
)

// node is a file, folder, link or device of the tree.
type node struct {
	path  string // the first that led to it
	info  fs.FileInfo
	links uint32
	id    uint64 // its name in folders, see slotsPerInode
	block int64  // where its content begins; 0 where it has none
	size  int64

	parent  *node   // of a folder
	entries []entry // of a folder, by name
	target  string  // of a symbolic link
}

// entry is a name in a folder.
type entry struct {
	name string
	node *node
}

// scanned is a tree that has been looked through. Its root is the first node.
type scanned struct {
	nodes []*node
	inos  map[uint64]*node
	tree  fs.FS
}

func scan(tree fs.FS) (*scanned, error) {
	info, err := fs.Stat(tree, ".")
	if err != nil {
		return nil, err
	}
	t := &scanned{inos: map[uint64]*node{}, tree: tree}
	root := &node{path: ".", info: info, links: 2}
	root.parent = root
	t.nodes = append(t.nodes, root)
	return t, t.folder(root, 0)
}

// folder looks through a folder, and those in it.
func (t *scanned) folder(n *node, depth int) error {
	if depth > maxDepth {
		return ErrTooLarge
	}
	found, err := fs.ReadDir(t.tree, n.path)
	if err != nil {
		return err
	}
	for _, e := range found {
		path := e.Name()
		if n.path != "." {
			path = n.path + "/" + path
		}
		if len(e.Name()) > maxName || e.Name() == "" || strings.ContainsAny(e.Name(), "/\x00") {
			return fmt.Errorf("%q: this name can't be in an image", path)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		child, err := t.node(path, info, n)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{e.Name(), child})
	}
	for _, e := range n.entries {
		if e.node.info.IsDir() {
			if err := t.folder(e.node, depth+1); err != nil {
				return err
			}
		}
	}
	n.entries = append(n.entries, entry{".", n}, entry{"..", n.parent})
	sort.Slice(n.entries, func(i, j int) bool { return n.entries[i].name < n.entries[j].name })
	n.size = foldersSize(n.entries)
	return nil
}

// node gives the node of a name: one that is known already, where it is a further link to it.
func (t *scanned) node(path string, info fs.FileInfo, parent *node) (*node, error) {
	st, hasIno := info.Sys().(*syscall.Stat_t)
	if hasIno && !info.IsDir() {
		if n := t.inos[st.Ino]; n != nil && n.info.Mode().Type() == info.Mode().Type() {
			n.links++
			return n, nil
		}
	}
	if len(t.nodes) == MaxNodes {
		return nil, ErrTooLarge
	}
	n := &node{path: path, info: info, links: 1, id: uint64(len(t.nodes)) * slotsPerInode}
	switch info.Mode().Type() {
	case 0:
		n.size = info.Size()
	case fs.ModeDir:
		n.links, n.parent = 2, parent
		parent.links++
	case fs.ModeSymlink:
		target, err := fs.ReadLink(t.tree, path)
		if err != nil {
			return nil, err
		}
		if len(target) > maxLink || target == "" {
			return nil, fmt.Errorf("%q: a link with a target of %d bytes can't be in an image", path, len(target))
		}
		n.target, n.size = target, int64(len(target))
	}
	t.nodes = append(t.nodes, n)
	if hasIno && !info.IsDir() {
		t.inos[st.Ino] = n
	}
	return n, nil
}

// place gives every node's content its place, and tells how many blocks the image has.
func (t *scanned) place() (total int64) {
	total = 1 + blocks(int64(len(t.nodes))*inodeSize)
	for _, regular := range []bool{false, true} { // what is read to find a file lies together
		for _, n := range t.nodes {
			if n.size > 0 && n.info.Mode().IsRegular() == regular {
				n.block = total
				total += blocks(n.size)
			}
		}
	}
	return total
}
