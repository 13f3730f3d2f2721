package erofs

import (
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"syscall"
)

// node is a file, directory, link or device in the tree.
type node struct {
	path  string // the first path at which the scan found it
	info  fs.FileInfo
	links uint32
	id    uint64 // node number in directory entries, see slotsPerInode
	block int64  // first block of the content, or 0 if it has no content
	size  int64

	parent  *node   // of a directory
	entries []entry // entries of a directory, sorted by name
	target  string  // target of a symbolic link
}

// entry is a directory entry.
type entry struct {
	name string
	node *node
}

// scanned is the result of a scan. The first element of nodes is the root.
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

// folder scans a directory and its subdirectories.
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
			return fmt.Errorf("%q: an image can't hold this name", path)
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
	n.size = directorySize(n.entries)
	return nil
}

// node returns the node for a path. Further hard links to a file share its node.
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
			return nil, fmt.Errorf("%q: an image can't hold a link target of %d bytes", path, len(target))
		}
		n.target, n.size = target, int64(len(target))
	}
	t.nodes = append(t.nodes, n)
	if hasIno && !info.IsDir() {
		t.inos[st.Ino] = n
	}
	return n, nil
}

// layout assigns blocks to all content and returns the number of blocks in the image.
func (t *scanned) layout() (total int64) {
	total = 1 + blocks(int64(len(t.nodes))*inodeSize)
	for _, regular := range []bool{false, true} { // metadata first, so that lookups read adjacent blocks
		for _, n := range t.nodes {
			if n.size > 0 && n.info.Mode().IsRegular() == regular {
				n.block = total
				total += blocks(n.size)
			}
		}
	}
	return total
}
