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
	"github.com/pyro-mcp/pyro/internal/xattr"
)

// changes is an archive that contains the changes that a gVisor machine made to its root. The
// helper pyro-runsc writes the archive, and runsc/layer describes its format. It is a POSIX tar
// archive. A directory precedes its content, and a character device 0,0 marks a deleted file. Extra
// PAX records mark directories that replace lower content, and files with holes.
type changes struct {
	archive io.ReaderAt
	root    *node
	nodes   int
	pieces  int64 // number of pieces of all files with holes
}

// node is a changed file, directory, link or device, or it represents a deletion. Long data stays
// in the archive: link targets, extended attributes and content.
type node struct {
	number          uint64
	links           uint32
	mode            uint32
	uid, gid        uint32
	device          uint64
	modified        time.Time
	header, content int64 // offsets in the archive
	size            int64
	pieces          *pieces          // data ranges of a file with holes; nil for other files
	children        map[string]*node // entries of a directory; nil for other files
	hasXattrs       bool             // the node has extended attributes
	opaque          bool
	implied         bool // The archive has no entry for the node. This is allowed only for the root.
}

func (n *node) whiteout() bool { return n.mode&unix.S_IFMT == unix.S_IFCHR && n.device == 0 }

// Limits for an archive of changes.
const (
	maxChanges = 1_000_000
	maxPieces  = 1 << 26   // Of all files with holes. With one page each, they contain 256 GiB.
	maxPath    = 256 << 10 // Of an entry, in bytes. Directories can be deeper than Linux's limit for paths.
	maxTarget  = 4096      // Of a symbolic link, in bytes, including the final NUL.
	maxName    = 255
)

// An archive consists of blocks and ends with two blocks of zeros.
const (
	blockSize = 512
	endSize   = 2 * blockSize
)

// Over returns a tree with changes on top of the tree lower. The changes are in a tar archive of
// size bytes. The tree reads long data on demand, so the archive must not change while the tree is
// in use.
//
// If the archive is malformed, the error has kind Corrupt. If the archive has more than a million
// entries, or files with holes have more than 64 million pieces, the error has kind Exhausted.
func Over(ctx context.Context, lower Tree, archive io.ReaderAt, size int64) (Tree, error) {
	c := &changes{archive: archive, root: &node{mode: unix.S_IFDIR | 0o755, links: 2, children: map[string]*node{}, implied: true}}
	// tar.Reader seeks past content and does not buffer. The current offset is therefore the start
	// of the content.
	source := io.NewSectionReader(&readAhead{archive: archive}, 0, size)
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
		case h == nil && at < end+endSize: // the file ends before the end of the archive
			return nil, refused("", io.ErrUnexpectedEOF)
		case h == nil:
			return overlay{lower, c}, nil
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

// refused returns the error for an entry. It gives the error the kind Corrupt, unless the kind is
// Exhausted.
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

// parts splits a path into names. The path of the root has no names.
func parts(name string) (names []string, err error) {
	name = strings.TrimSuffix(name, "/")
	if name == "." {
		return nil, nil
	}
	if len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
		return nil, errors.New("the path is not valid")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return nil, errors.New("the path is not valid")
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

// add records an entry. The parameters header and content are the offsets of its headers and its
// content.
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
			return errors.New("only one entry may be the root, and it must be a directory")
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
		return errors.New("its parent is not a directory of the archive")
	case parent.children[last] != nil:
		return errors.New("it exists already")
	}
	parent.children[strings.Clone(last)] = n // Do not keep the whole path in memory.
	n.links++
	if n.children != nil {
		parent.links++ // its ".." entry
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
		return fmt.Errorf("it is a link to %q, which is not a file", to)
	}
	return c.enter(names, n)
}

// kinds maps the types of entries, except hard links, to the file type bits of a mode.
var kinds = map[byte]uint32{
	tar.TypeReg: unix.S_IFREG, tar.TypeDir: unix.S_IFDIR, tar.TypeSymlink: unix.S_IFLNK, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK,
	tar.TypeFifo: unix.S_IFIFO,
}

// PAX records with a special meaning.
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
			return nil, errors.New("sparse files in the format of GNU tar are not supported")
		}
	}
	attributes, err := attributesOf(h)
	if err != nil {
		return nil, err
	}
	n := &node{
		number: uint64(c.nodes), mode: kind | uint32(h.Mode)&0o7777, uid: uint32(h.Uid), gid: uint32(h.Gid), modified: h.ModTime,
		device: unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)), header: header, content: content, hasXattrs: len(attributes) > 0,
		opaque: h.PAXRecords[opaqueRecord] == "y",
	}
	switch kind {
	case unix.S_IFREG:
		return n, c.sizes(n, h)
	case unix.S_IFDIR:
		n.children, n.links = map[string]*node{}, 1 // its "." entry
	case unix.S_IFLNK:
		if h.Linkname == "" || len(h.Linkname) >= maxTarget || strings.IndexByte(h.Linkname, 0) >= 0 {
			return nil, errors.New("the link target is not valid")
		}
		n.size = int64(len(h.Linkname))
	}
	return n, nil
}

// sizes sets the size and the holes of a regular file from its headers.
func (c *changes) sizes(n *node, h *tar.Header) (err error) {
	text, holes := h.PAXRecords[sizeRecord]
	if !holes {
		n.size = h.Size
		return nil
	}
	if n.size, err = strconv.ParseInt(text, 10, 64); err != nil || n.size < 0 {
		return errors.New("its size is not valid")
	}
	n.pieces, err = readPieces(c.archive, n.content, h.Size, n.size, maxPieces-c.pieces)
	if err == nil {
		c.pieces += n.pieces.count
	}
	return err
}

// rereadHeader reads the headers of an entry again.
func (c *changes) rereadHeader(n *node) (*tar.Header, error) {
	h, err := tar.NewReader(io.NewSectionReader(c.archive, n.header, n.content-n.header)).Next()
	if err != nil {
		return nil, refused("", err)
	}
	return h, nil
}

// attributesOf returns the extended attributes of an entry in the format of ext4.
func attributesOf(h *tar.Header) (map[string]string, error) {
	var attributes map[string]string
	for key, value := range h.PAXRecords {
		name, is := strings.CutPrefix(key, xattrRecord)
		if !is || !xattr.Portable(name) {
			continue
		}
		if xattr.ACL(name) {
			packed, err := base64.RawStdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			value = string(packed)
		}
		if attributes == nil {
			attributes = map[string]string{}
		}
		if err := addXattr(attributes, name, value); err != nil {
			return nil, err
		}
	}
	return attributes, nil
}
