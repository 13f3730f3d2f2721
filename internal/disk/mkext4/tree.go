package mkext4

import (
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// node is a file, directory, link or device in the image.
type node struct {
	number uint32
	links  uint32
	kind   byte // file type code for directory entries
	folder *folder
}

// folder collects the entries of a directory until Finish writes the directory.
type folder struct {
	*node
	parent  *folder
	entry   Entry
	names   []name // names in the order of the calls
	byName  map[string]*node
	folders uint32 // number of subdirectories
}

type name struct {
	text string
	node *node
}

// tree is the directory tree of an image.
type tree struct {
	root    *folder
	folders []*folder
	linked  []*node // nodes that got a second link after their inode was written
}

const (
	maxName  = 255
	maxLink  = blockSize - 1
	maxLinks = 65000
)

// begin creates the root directory, which is its own parent, and lost+found.
func (w *Writer) begin() {
	entry := Entry{Mode: unix.S_IFDIR | 0o755, Accessed: w.id.Made, Modified: w.id.Made, Changed: w.id.Made}
	root := newFolder(rootInode, nil, entry)
	root.parent = root
	w.tree.root, w.tree.folders = root, []*folder{root}
	entry.Mode = unix.S_IFDIR | 0o700
	number, _ := w.inodes.number() // the number is firstInode, which is always free
	w.addName(root, "lost+found", newFolder(number, root, entry).node)
}

func newFolder(number uint32, parent *folder, e Entry) *folder {
	f := &folder{node: &node{number: number, kind: kindOf(e.Mode)}, parent: parent, entry: e, byName: map[string]*node{}}
	f.node.folder = f
	return f
}

// addName adds an entry for a node to a directory.
func (w *Writer) addName(parent *folder, text string, n *node) {
	text = strings.Clone(text) // do not keep the whole path in memory
	parent.names = append(parent.names, name{text, n})
	parent.byName[text] = n
	n.links++
	if n.folder != nil {
		parent.folders++
		w.tree.folders = append(w.tree.folders, n.folder)
	}
}

// kindOf returns the file type code for directory entries. For an invalid mode it returns 0.
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

// parentOf returns the parent directory of a path, and the last name in the path. It creates
// missing parent directories. For the root it returns nil and "".
func (w *Writer) parentOf(path string) (parent *folder, last string, err error) {
	at, text := w.tree.root, path
	if path == "." {
		return nil, "", nil
	}
	for {
		part, rest, more := strings.Cut(text, "/")
		if part == "" || part == "." || part == ".." || len(part) > maxName || strings.IndexByte(part, 0) >= 0 {
			return nil, "", fault.Wrap(corrupt("the name is not valid"), "make file system at", short(path))
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
			w.addName(at, part, n)
		}
		if n.folder == nil {
			return nil, "", fault.Wrap(corrupt("its parent is not a directory"), "make file system at", short(path))
		}
		at, text = n.folder, rest
	}
}

// find returns the node at a path.
func (t *tree) find(path string) (*node, error) {
	at := t.root.node
	for part := range strings.SplitSeq(path, "/") {
		if path == "." {
			break
		}
		if at.folder == nil || at.folder.byName[part] == nil {
			return nil, corrupt("it is a hard link to %q, which does not exist", short(path))
		}
		at = at.folder.byName[part]
	}
	return at, nil
}

// add creates a file of any type, or changes the attributes of an existing directory.
func (w *Writer) add(parent *folder, text string, e Entry, content io.Reader) error {
	kind := kindOf(e.Mode)
	if kind == 0 {
		return corrupt("unknown file type, mode %#o", e.Mode)
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
		return corrupt("it exists already")
	}
	number, err := w.inodes.number()
	if err != nil {
		return err
	}
	if isFolder {
		w.addName(parent, text, newFolder(number, parent, e).node)
		return nil
	}
	if err := w.writeFile(number, &e, content); err != nil {
		return err
	}
	w.addName(parent, text, &node{number: number, kind: kind})
	return nil
}

// writeFile writes a file of any type except directories.
func (w *Writer) writeFile(number uint32, e *Entry, content io.Reader) error {
	attributes, err := w.writeXattrs(e.Xattrs)
	if err != nil {
		return err
	}
	blocks := attributes.blocks()
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if e.Size < 0 || e.Size > (1<<32-1)*blockSize {
			return corrupt("a file can't have %d bytes", e.Size)
		}
		return w.writeContent(number, e, 1, 0, e.Size, content, attributes)
	case unix.S_IFLNK:
		if len(e.Target) == 0 || len(e.Target) > maxLink {
			return corrupt("a link target can't have %d bytes", len(e.Target))
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

// writeContent writes content, and then the inode that refers to it.
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

// link adds a hard link to a node.
func (w *Writer) link(parent *folder, text string, n *node) error {
	switch {
	case n.folder != nil:
		return corrupt("it is a hard link to a directory")
	case parent == nil || parent.byName[text] != nil:
		return corrupt("it exists already")
	case n.links == maxLinks:
		return corrupt("it is a hard link to a file that has %d names", maxLinks)
	case n.links == 1:
		w.tree.linked = append(w.tree.linked, n)
	}
	w.addName(parent, text, n)
	return nil
}
