package view

import (
	"archive/tar"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// changes is an archive of what a gVisor machine changed of its root, as its helper writes it (runsc/layer says in which form). Besides POSIX's format that is:
// each folder before what is in it, what was removed as a character device 0,0, a record for folders that hide what is below them, and one for files with
// holes.
type changes struct {
	archive io.ReaderAt
	root    *node
	nodes   int
	pieces  int64 // of files with holes, in all
}

// node is a file, folder, link or device that was changed, or something that was removed. What can be long is left in the archive: targets of links, extended
// attributes, content.
type node struct {
	number          uint64
	links           uint32
	mode            uint32
	uid, gid        uint32
	device          uint64
	modified        time.Time
	header, content int64 // where they begin in the archive
	size            int64
	pieces          *pieces          // of a file with holes, nil for others
	children        map[string]*node // of a folder, nil for others
	noted           bool             // it has extended attributes
	opaque          bool
	implied         bool // the archive says nothing of it: the root alone can be so
}

func (n *node) whiteout() bool { return n.mode&unix.S_IFMT == unix.S_IFCHR && n.device == 0 }

// Bounds of an archive of changes.
const (
	maxChanges = 1_000_000
	maxPieces  = 1 << 26   // of files with holes, in all: with a page in each they hold 256 GiB
	maxPath    = 256 << 10 // of an entry, in bytes: a folder can be deeper than a path that Linux takes
	maxTarget  = 4096      // of a symbolic link, and one
	maxName    = 255
)

// An archive is blocks, and ends with two of zeros.
const (
	blockSize = 512
	endSize   = 2 * blockSize
)

// Over is a tree with changes over it, which are in a tar archive of the given size in bytes. The archive is read once, but for what is long, and must
// stay as it is while the tree is in use. Errors are of kind Corrupt for what is no such archive, and Exhausted for one with more than a million entries, or
// with files of more than 64 million pieces.
func Over(ctx context.Context, lower Tree, archive io.ReaderAt, size int64) (Tree, error) {
	c := &changes{archive: archive, root: &node{mode: unix.S_IFDIR | 0o755, links: 2, children: map[string]*node{}, implied: true}}
	// The reader goes over the content by seeking, and has no buffer of its own, so where it is is where the content begins.
	source := io.NewSectionReader(&ahead{archive: archive}, 0, size)
	entries, end := tar.NewReader(source), int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := entries.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, refused("", err)
		}
		at, seekErr := source.Seek(0, io.SeekCurrent)
		switch {
		case seekErr != nil:
			return nil, seekErr
		case h == nil && at < end+endSize: // the end of the file, not of the archive
			return nil, refused("", io.ErrUnexpectedEOF)
		case h == nil:
			return changed{lower, c}, nil
		case h.Size > size-at:
			return nil, refused(h.Name, io.ErrUnexpectedEOF)
		}
		if c.nodes++; c.nodes > maxChanges {
			return nil, tooMany(maxChanges, "entries")
		}
		if err := c.add(h, end, at); err != nil {
			return nil, refused(h.Name, err)
		}
		end = at + (h.Size+blockSize-1)/blockSize*blockSize
	}
}

// refused is an error of an entry. It keeps its kind if it has one.
func refused(name string, err error) error {
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	if exhausted, ok := errors.AsType[*fault.Error](err); ok && exhausted.Kind == fault.Exhausted {
		return err
	}
	return &fault.Error{Op: "read changes", Subject: name, Kind: fault.Corrupt, Err: err}
}

func tooMany(most int, what string) error {
	return fault.New(fault.Exhausted, "read changes", "", "there are more than %d %s", most, what)
}

// parts gives the names in a path. That of the root has none.
func parts(name string) (names []string, err error) {
	name = strings.TrimSuffix(name, "/")
	if name == "." {
		return nil, nil
	}
	if len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
		return nil, errors.New("no path can be like this")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return nil, errors.New("no path can be like this")
		}
		names = append(names, part)
	}
	return names, nil
}

func (c *changes) find(names []string) *node {
	n := c.root
	for _, name := range names {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// add takes up an entry, whose headers and content begin at these offsets.
func (c *changes) add(h *tar.Header, header, content int64) error {
	names, err := parts(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return c.link(names, h.Linkname)
	}
	n, err := c.node(h, header, content)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if n.children == nil || !c.root.implied {
			return errors.New("it is not the root, or not the first one")
		}
		n.children, n.links = c.root.children, c.root.links
		c.root = n
		return nil
	}
	return c.enter(names, n)
}

func (c *changes) enter(names []string, n *node) error {
	parent, last := c.find(names[:len(names)-1]), names[len(names)-1]
	switch {
	case parent == nil || parent.children == nil:
		return errors.New("it is in no folder")
	case parent.children[last] != nil:
		return errors.New("it is there already")
	}
	parent.children[strings.Clone(last)] = n // and not all of its path
	n.links++
	if n.children != nil {
		parent.links++ // which it names as the one above
	}
	return nil
}

func (c *changes) link(names []string, to string) error {
	target, err := parts(to)
	if err != nil {
		return err
	}
	n := c.find(target)
	if n == nil || n.children != nil || n.whiteout() || len(names) == 0 {
		return fmt.Errorf("it is a link to %q, which is no file", to)
	}
	return c.enter(names, n)
}

// kinds are the kinds of entries, but for hard links.
var kinds = map[byte]uint32{
	tar.TypeReg: unix.S_IFREG, tar.TypeDir: unix.S_IFDIR, tar.TypeSymlink: unix.S_IFLNK, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK,
	tar.TypeFifo: unix.S_IFIFO,
}

// What an entry's records say beside what all archives do.
const (
	xattrRecord  = "SCHILY.xattr."
	opaqueRecord = xattrRecord + "trusted.overlay.opaque"
	sizeRecord   = "PYRO.size"
)

func (c *changes) node(h *tar.Header, header, content int64) (*node, error) {
	kind, known := kinds[h.Typeflag]
	if !known || int64(h.Uid) != int64(uint32(h.Uid)) || int64(h.Gid) != int64(uint32(h.Gid)) {
		return nil, fmt.Errorf("an entry of kind %q of user %d and group %d", h.Typeflag, h.Uid, h.Gid)
	}
	if h.Devmajor < 0 || h.Devmajor > 0xfff || h.Devminor < 0 || h.Devminor > 0xfffff {
		return nil, fmt.Errorf("a device %d,%d", h.Devmajor, h.Devminor)
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return nil, errors.New("it is stored with holes of another form")
		}
	}
	attributes, err := attributesOf(h)
	if err != nil {
		return nil, err
	}
	n := &node{
		number: uint64(c.nodes), mode: kind | uint32(h.Mode)&0o7777, uid: uint32(h.Uid), gid: uint32(h.Gid), modified: h.ModTime,
		device: unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)), header: header, content: content, noted: len(attributes) > 0,
		opaque: h.PAXRecords[opaqueRecord] == "y",
	}
	switch kind {
	case unix.S_IFREG:
		return n, c.sizes(n, h)
	case unix.S_IFDIR:
		n.children, n.links = map[string]*node{}, 1 // its own name in itself
	case unix.S_IFLNK:
		if h.Linkname == "" || len(h.Linkname) >= maxTarget || strings.IndexByte(h.Linkname, 0) >= 0 {
			return nil, errors.New("no link can be like this")
		}
		n.size = int64(len(h.Linkname))
	}
	return n, nil
}

// sizes says how large a regular file is, and where it has holes.
func (c *changes) sizes(n *node, h *tar.Header) (err error) {
	text, holes := h.PAXRecords[sizeRecord]
	if !holes {
		n.size = h.Size
		return nil
	}
	if n.size, err = strconv.ParseInt(text, 10, 64); err != nil || n.size < 0 {
		return errors.New("its size is no size of a file")
	}
	n.pieces, err = readPieces(c.archive, n.content, h.Size, n.size, maxPieces-c.pieces)
	if err == nil {
		c.pieces += n.pieces.count
	}
	return err
}

// again reads the headers of an entry once more.
func (c *changes) again(n *node) (*tar.Header, error) {
	h, err := tar.NewReader(io.NewSectionReader(c.archive, n.header, n.content-n.header)).Next()
	if err != nil {
		return nil, refused("", err)
	}
	return h, nil
}

// attributesOf gives an entry's extended attributes, as ext4 stores them.
func attributesOf(h *tar.Header) (map[string]string, error) {
	var attributes map[string]string
	for key, value := range h.PAXRecords {
		name, is := strings.CutPrefix(key, xattrRecord)
		if !is || !kept(name) {
			continue
		}
		if isList(name) {
			packed, err := base64.RawStdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			value = string(packed)
		}
		if attributes == nil {
			attributes = map[string]string{}
		}
		if err := note(attributes, name, value); err != nil {
			return nil, err
		}
	}
	return attributes, nil
}
