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
)

// node is a name in the tree that an archive's entries make together.
type node struct {
	above    *node // of the top: nil
	name     string
	children map[string]*node // of a folder
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

// item is what one or several names stand for.
type item struct {
	kind  byte // as in tar
	mode  uint32
	mtime time.Time
	size  int64
	text  string  // of a symbolic link
	names []*node // of a regular file, once all is known
}

// skipped is the item of a device.
var skipped = &item{kind: tar.TypeChar}

// found is what an archive holds.
type found struct {
	policy Policy
	tally  tally
	top    *node
	files  []*item   // the regular ones, in the order of their entries, also those that have no name left
	dated  time.Time // when folders were changed that have no entry
	text   int       // bytes of names and links
}

// survey reads the headers of an archive, and refuses what is hostile. Folders without an entry are made, of the given time.
func survey(entries *tree.Reader, policy Policy, dated time.Time) (*found, error) {
	f := &found{policy: policy, tally: tally{limits: policy.Limits}, dated: dated}
	f.top = f.folder(nil, "")
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return f, f.settle()
		}
		if err != nil {
			return nil, err
		}
		if err := f.add(header); err != nil {
			return nil, inEntry(header.Name, err)
		}
	}
}

func (f *found) folder(above *node, name string) *node {
	return &node{above: above, name: name, children: map[string]*node{}, item: &item{kind: tar.TypeDir, mode: 0o755, mtime: f.dated}}
}

// add puts an entry into the tree, in place of what had its name.
func (f *found) add(header *tar.Header) error {
	parts, err := cleaned(header.Name)
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
			return refused("it is a device or a FIFO")
		}
		added = skipped
	case tar.TypeDir:
	default:
		return refused("this kind of entry, %q, is not known", header.Typeflag)
	}
	if err := f.tally.count(added.size); err != nil {
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

// linked gives the item that a hard link leads to. A further name of a symbolic link becomes a link of its own.
func (f *found) linked(name string) (*item, error) {
	parts, err := cleaned(name)
	if err != nil {
		return nil, refused("it is a hard link to %q: %w", ending(name), err)
	}
	at := f.top
	for _, part := range parts {
		if at = at.children[part]; at == nil { // what is no folder has none
			return nil, refused("it is a hard link to %q, which is not before it", ending(name))
		}
	}
	if at.children != nil {
		return nil, refused("it is a hard link to the folder %q", ending(name))
	}
	return at.item, nil
}

func (f *found) put(parts []string, added *item) error {
	above, err := f.reach(parts[:len(parts)-1])
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
		return refused("it would replace a folder that has something in it")
	case added.kind == tar.TypeDir:
		above.children[name] = f.folder(above, name)
		above.children[name].item = added
	default:
		above.children[name] = &node{above: above, name: name, item: added}
	}
	return nil
}

// reach gives a folder, and makes what is missing of it.
func (f *found) reach(parts []string) (*node, error) {
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
			return nil, refused("it would be written through the link %q", ending(next.path()))
		default:
			return nil, refused("%q is no folder", ending(next.path()))
		}
		at = next
	}
	return at, nil
}

// each calls visit for all names but the top, each folder before what is in it, in the order of their bytes.
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

// settle looks at the tree when it is whole.
func (f *found) settle() error {
	return f.top.each(func(n *node) error {
		switch n.item.kind {
		case tar.TypeReg:
			n.item.names = append(n.item.names, n)
		case tar.TypeSymlink:
			if n.leadsOut() {
				err := refused("it is a link that leads out of the archive, to %q", ending(n.item.text))
				return inEntry(n.path(), err.WithHint("unpack the archive, and give the folder"))
			}
		}
		return nil
	})
}

// leadsOut tells whether a symbolic link can lead out of the tree. None does whose text climbs no higher than the top, and never climbs after it has gone
// through another link: a link that is met on the way then goes down from where a link of that sort has led.
func (n *node) leadsOut() bool {
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

// writeFolders writes all that has no content: folders, before all else, and symbolic links.
func (f *found) writeFolders(out *stream) (s Summary, err error) {
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
