package archive

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/sparse"
)

// node is a name in the tree of an archive's entries.
type node struct {
	above    *node // parent, or nil for the root
	name     string
	children map[string]*node // entries of a directory; otherwise nil
	item     *item
}

func (n *node) path() string {
	var parts []string
	for ; n.above != nil; n = n.above {
		parts = append(parts, n.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// item is a file, directory or link. It has one or more names.
type item struct {
	kind  byte // type of the entry, as in tar
	mode  uint32
	mtime time.Time
	size  int64
	data  sparse.Ranges // data ranges of a sparse file
	holes bool          // it is a sparse file
	text  string        // target of a symbolic link
	names []*node       // names of a regular file; check sets them
}

// skipped represents all devices and FIFOs.
var skipped = &item{kind: tar.TypeChar}

// surveyed is the result of a survey.
type surveyed struct {
	policy Policy
	tally  tally
	top    *node
	files  []*item   // Regular files in the order of their entries, including replaced files.
	dated  time.Time // Time for directories without an entry.
	text   int       // Total length of names and link targets, in bytes.
}

// survey reads the headers of an archive, and rejects hostile archives. It adds missing directories
// with the time dated.
func survey(entries *tree.Reader, policy Policy, dated time.Time) (*surveyed, error) {
	f := &surveyed{policy: policy, tally: tally{limits: policy.Limits}, dated: dated}
	f.top = f.folder(nil, "")
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return f, f.check()
		}
		if err != nil {
			return nil, err
		}
		if err := f.add(header, entries); err != nil {
			return nil, inEntry(header.Name, err)
		}
	}
}

func (f *surveyed) folder(above *node, name string) *node {
	return &node{above: above, name: name, children: map[string]*node{}, item: &item{kind: tar.TypeDir, mode: 0o755, mtime: f.dated}}
}

// add adds an entry to the tree. The entry replaces any earlier entry of the same name. add reads
// the content only of sparse files.
func (f *surveyed) add(header *tar.Header, content *tree.Reader) error {
	parts, err := splitName(header.Name)
	if err != nil {
		return err
	}
	if f.text += len(header.Name) + len(header.Linkname); f.text > maxText {
		return tooMuchText()
	}
	added := &item{kind: header.Typeflag, mode: uint32(header.Mode & 0o7777), mtime: header.ModTime}
	switch header.Typeflag {
	case tar.TypeReg:
		added.size = header.Size
		f.files = append(f.files, added)
		if content.Sparse() {
			if err := f.tally.addHoles(header.Size); err != nil {
				return err
			}
			if added.data, err = sparse.Scan(content, header.Size); err != nil {
				return err
			}
			added.holes = true
		}
	case tar.TypeSymlink:
		added.text = header.Linkname
		if err := checkText(added.text); err != nil {
			return err
		}
	case tar.TypeLink:
		if added, err = f.linked(header.Linkname); err != nil {
			return err
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if f.policy.Devices == RefuseDevices {
			return refused("devices and FIFOs are not allowed")
		}
		added = skipped
	case tar.TypeDir:
	default:
		return refused("unknown entry type %q", header.Typeflag)
	}
	stored := added.size
	if added.holes {
		stored = added.data.Bytes()
	}
	if err := f.tally.count(stored); err != nil {
		return err
	}
	if len(parts) == 0 {
		if header.Typeflag == tar.TypeDir {
			return nil
		}
		return refused("it has no name")
	}
	return f.put(parts, added)
}

// linked returns the item to which a hard link refers. A hard link to a symbolic link becomes a
// separate symbolic link.
func (f *surveyed) linked(name string) (*item, error) {
	parts, err := splitName(name)
	if err != nil {
		return nil, refused("it is a hard link to %q: %w", shortened(name), err)
	}
	at := f.top
	for _, part := range parts {
		if at = at.children[part]; at == nil { // Only directories have children.
			return nil, refused("it is a hard link to %q, which is not an earlier entry", shortened(name))
		}
	}
	if at.children != nil {
		return nil, refused("it is a hard link to the directory %q", shortened(name))
	}
	return at.item, nil
}

func (f *surveyed) put(parts []string, added *item) error {
	above, err := f.ensureFolder(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	old := above.children[name]
	switch {
	case old != nil && old.children != nil && added.kind == tar.TypeDir:
		old.item = added
		return nil
	case old != nil && len(old.children) > 0:
		return refused("it would replace a directory that is not empty")
	case added.kind == tar.TypeDir:
		above.children[name] = f.folder(above, name)
		above.children[name].item = added
	default:
		above.children[name] = &node{above: above, name: name, item: added}
	}
	return nil
}

// ensureFolder returns the directory at a path. It creates missing directories.
func (f *surveyed) ensureFolder(parts []string) (*node, error) {
	at := f.top
	for _, part := range parts {
		next := at.children[part]
		switch {
		case next == nil:
			if err := f.tally.count(0); err != nil {
				return nil, err
			}
			next = f.folder(at, part)
			at.children[part] = next
		case next.children != nil:
		case next.item.kind == tar.TypeSymlink:
			return nil, refused("its path contains the link %q", shortened(next.path()))
		default:
			return nil, refused("%q is not a directory", shortened(next.path()))
		}
		at = next
	}
	return at, nil
}

// each calls the function visit for all nodes below n, in the byte order of their names. A
// directory comes before its content.
func (n *node) each(visit func(*node) error) error {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		if err := visit(child); err != nil {
			return err
		}
		if err := child.each(visit); err != nil {
			return err
		}
	}
	return nil
}

// check checks the complete tree, and collects the names of regular files.
func (f *surveyed) check() error {
	return f.top.each(func(n *node) error {
		switch n.item.kind {
		case tar.TypeReg:
			n.item.names = append(n.item.names, n)
		case tar.TypeSymlink:
			if n.escapes() {
				err := refused("it is a link that leads out of the archive: %q", shortened(n.item.text))
				return inEntry(n.path(), err.WithHint("unpack the archive, and pass the directory"))
			}
		}
		return nil
	})
}

// escapes reports whether a symbolic link might lead out of the tree. A link is safe if its target
// never climbs above the root, and never climbs after a component that is another link. Following
// several safe links then also stays in the tree.
func (n *node) escapes() bool {
	if strings.HasPrefix(n.item.text, "/") {
		return true
	}
	at, missing, through := n.above, 0, false
	for part := range strings.SplitSeq(n.item.text, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && (through || missing == 0 && at.above == nil):
			return true
		case part == ".." && missing > 0:
			missing--
		case part == "..":
			at = at.above
		case missing > 0 || at.children[part] == nil:
			missing++
		default:
			at = at.children[part]
			through = through || at.item.kind == tar.TypeSymlink
		}
	}
	return false
}

// writeFolders writes all entries without content: directories and symbolic links.
func (f *surveyed) writeFolders(out *stream) (s Summary, err error) {
	return s, f.top.each(func(n *node) error {
		switch n.item.kind {
		case tar.TypeDir:
			s.Directories++
		case tar.TypeSymlink:
			s.Symlinks++
		case tar.TypeChar:
			s.Skipped++
			return nil
		default:
			return nil
		}
		return out.header(n.item.kind, n.path(), n.item.text, n.item.mode, n.item.mtime, 0)
	})
}
