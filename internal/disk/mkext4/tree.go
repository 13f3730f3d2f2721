package mkext4

import (
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// node is what a name in a folder stands for.
type node struct {
	number uint32
	links  uint32
	kind   byte // as it is noted beside the name
	folder *folder
}

// folder is what is gathered of a folder until all of it is known.
type folder struct {
	*node
	parent  *folder
	entry   Entry
	names   []name // in the order in which they came
	byName  map[string]*node
	folders uint32 // in it
}

type name struct {
	text string
	node *node
}

// tree is all names.
type tree struct {
	root    *folder
	folders []*folder
	linked  []*node // those that got a further name after their inode was written
}

const (
	maxName  = 255
	maxLink  = blockSize - 1
	maxLinks = 65000
)

// begin makes the root folder, which is in itself, and what every file system has.
func (w *Writer) begin() {
	entry := Entry{Mode: unix.S_IFDIR | 0o755, Accessed: w.id.Made, Modified: w.id.Made, Changed: w.id.Made}
	root := newFolder(rootInode, nil, entry)
	root.parent = root
	w.tree.root, w.tree.folders = root, []*folder{root}
	entry.Mode = unix.S_IFDIR | 0o700
	number, _ := w.inodes.number() // the first one
	w.enter(root, "lost+found", newFolder(number, root, entry).node)
}

func newFolder(number uint32, parent *folder, e Entry) *folder {
	f := &folder{node: &node{number: number, kind: kindOf(e.Mode)}, parent: parent, entry: e, byName: map[string]*node{}}
	f.node.folder = f
	return f
}

// enter gives a node a name.
func (w *Writer) enter(parent *folder, text string, n *node) {
	parent.names = append(parent.names, name{text, n})
	parent.byName[text] = n
	n.links++
	if n.folder != nil {
		parent.folders++
		w.tree.folders = append(w.tree.folders, n.folder)
	}
}

// kindOf is the kind of a file as it is noted beside its name, 0 for none that there is.
func kindOf(mode uint32) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 1
	case unix.S_IFDIR:
		return 2
	case unix.S_IFCHR:
		return 3
	case unix.S_IFBLK:
		return 4
	case unix.S_IFIFO:
		return 5
	case unix.S_IFSOCK:
		return 6
	case unix.S_IFLNK:
		return 7
	}
	return 0
}

// parentOf finds the folder that a path's last name is in, and makes those above it that are missing. The root folder is nowhere.
func (w *Writer) parentOf(path string) (parent *folder, last string, err error) {
	at, text := w.tree.root, path
	if path == "." {
		return nil, "", nil
	}
	for {
		part, rest, more := strings.Cut(text, "/")
		if part == "" || part == "." || part == ".." || len(part) > maxName || strings.IndexByte(part, 0) >= 0 {
			return nil, "", fault.Wrap(corrupt("no file can have this name"), "make file system at", short(path))
		}
		if !more {
			return at, part, nil
		}
		n := at.byName[part]
		if n == nil {
			number, err := w.inodes.number()
			if err != nil {
				return nil, "", err
			}
			entry := at.entry
			entry.Xattrs = nil
			n = newFolder(number, at, entry).node
			w.enter(at, part, n)
		}
		if n.folder == nil {
			return nil, "", fault.Wrap(corrupt("it lies in a file that is no folder"), "make file system at", short(path))
		}
		at, text = n.folder, rest
	}
}

// find gives what is at a path.
func (t *tree) find(path string) (*node, error) {
	at := t.root.node
	for part := range strings.SplitSeq(path, "/") {
		if path == "." {
			break
		}
		if at.folder == nil || at.folder.byName[part] == nil {
			return nil, corrupt("it is a link to %q, which is not there", short(path))
		}
		at = at.folder.byName[part]
	}
	return at, nil
}

// add makes a file of any kind, or changes a folder.
func (w *Writer) add(parent *folder, text string, e Entry, content io.Reader) error {
	kind := kindOf(e.Mode)
	if kind == 0 {
		return corrupt("no file is of this kind, mode %#o", e.Mode)
	}
	existing := w.tree.root.node
	if parent != nil {
		existing = parent.byName[text]
	}
	isFolder := e.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case existing != nil && existing.folder != nil && isFolder:
		existing.folder.entry = e
		return nil
	case existing != nil:
		return corrupt("it is there already")
	}
	number, err := w.inodes.number()
	if err != nil {
		return err
	}
	if isFolder {
		w.enter(parent, text, newFolder(number, parent, e).node)
		return nil
	}
	if err := w.writeFile(number, &e, content); err != nil {
		return err
	}
	w.enter(parent, text, &node{number: number, kind: kind})
	return nil
}

// writeFile writes all of a file that is no folder.
func (w *Writer) writeFile(number uint32, e *Entry, content io.Reader) error {
	attributes, err := w.writeXattrs(e.Xattrs)
	if err != nil {
		return err
	}
	blocks := attributes.blocks()
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if e.Size < 0 || e.Size > (1<<32-1)*blockSize {
			return corrupt("no file can be of %d bytes", e.Size)
		}
		return w.writeContent(number, e, 1, 0, e.Size, content, attributes)
	case unix.S_IFLNK:
		if len(e.Target) == 0 || len(e.Target) > maxLink {
			return corrupt("no link's target can be of %d bytes", len(e.Target))
		}
		if len(e.Target) >= len([60]byte{}) {
			return w.writeContent(number, e, 1, 0, int64(len(e.Target)), strings.NewReader(e.Target), attributes)
		}
		return w.inodes.put(number, e.inode(1, int64(len(e.Target)), blocks, 0, []byte(e.Target), attributes))
	case unix.S_IFCHR, unix.S_IFBLK:
		return w.inodes.put(number, e.inode(1, 0, blocks, 0, deviceContent(e.Device), attributes))
	}
	return w.inodes.put(number, e.inode(1, 0, blocks, 0, nil, attributes))
}

// writeContent writes what has content, and its inode.
func (w *Writer) writeContent(number uint32, e *Entry, links, flags uint32, size int64, content io.Reader, attributes xattrs) error {
	extents, err := w.data.write(size, content)
	if err != nil {
		return err
	}
	root, nodes, err := extents.tree(&w.data)
	if err != nil {
		return err
	}
	blocks := extents.blocks() + nodes + attributes.blocks()
	return w.inodes.put(number, e.inode(links, size, blocks, flagExtents|flags, root[:], attributes))
}

// link gives a node a further name.
func (w *Writer) link(parent *folder, text string, n *node) error {
	switch {
	case n.folder != nil:
		return corrupt("it is a hard link to a folder")
	case parent == nil || parent.byName[text] != nil:
		return corrupt("it is there already")
	case n.links == maxLinks:
		return corrupt("it is a hard link to a file that has %d names", maxLinks)
	case n.links == 1:
		w.tree.linked = append(w.tree.linked, n)
	}
	w.enter(parent, text, n)
	return nil
}
