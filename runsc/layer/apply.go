package layer

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tree is an environment with its own empty layer. [Apply] applies an archived layer to it. Names
// are the names in the archive without a "/" at the end, and "." is the root. A file on the way to
// a name, such as a symbolic link, MUST NOT lead out of the tree.
type Tree interface {
	// Remove removes a file or folder and everything below it. It succeeds if the name does not
	// exist.
	Remove(name string) error
	// Folder creates a folder, unless the folder exists. If the name is another kind of file,
	// Folder removes that file first.
	Folder(name string) error
	// File creates an empty file. The name does not exist.
	File(name string) (File, error)
	// Symlink creates a symbolic link. The name does not exist.
	Symlink(name, target string) error
	// Link creates a hard link. The new name does not exist.
	Link(old, name string) error
	// Node creates a FIFO or a device. The name does not exist. The parameter kind is the type flag
	// in the archive.
	Node(name string, kind byte, major, minor uint32) error
	// Set sets the metadata of a file.
	Set(name string, m Metadata) error
}

// File is an open new file.
type File interface {
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

// Metadata is the metadata of a file of any kind.
type Metadata struct {
	Mode     uint32 // the lower 12 bits; unused for a symbolic link
	UID, GID uint32
	Modified time.Time
	Xattrs   map[string]string // by name
	Symlink  bool
}

// Apply applies a layer to a tree. After an error the tree contains only a part of the layer.
func Apply(to Tree, archive io.Reader) error {
	a := applier{tree: to, buffer: make([]byte, bufferSize)}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the earlier changes: %w", err)
		}
		if err := a.entry(h, r); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	// Metadata of folders comes last, because each change in a folder changes the folder's
	// modification time.
	for _, f := range slices.Backward(a.folders) {
		if err := to.Set(f.name, f.metadata); err != nil {
			return fmt.Errorf("%q: %w", f.name, err)
		}
	}
	return nil
}

type applier struct {
	tree    Tree
	buffer  []byte
	folders []folder
}

// folder is a folder whose metadata must still be set.
type folder struct {
	name     string
	metadata Metadata
}

func (a *applier) entry(h *tar.Header, content io.Reader) error {
	name := nameOf(h.Name)
	if !valid(name) {
		return errors.New("it is no name")
	}
	if h.Typeflag == tar.TypeDir {
		if name != "." && h.PAXRecords[opaqueRecord] == "y" {
			if err := a.tree.Remove(name); err != nil {
				return err
			}
		}
		a.folders = append(a.folders, folder{name, metadataOf(h)})
		return a.tree.Folder(name)
	}
	if name == "." {
		return errors.New("the root must be a folder")
	}
	if err := a.tree.Remove(name); err != nil || isWhiteout(h) {
		return err
	}
	if err := a.make(name, h, content); err != nil || h.Typeflag == tar.TypeLink {
		return err
	}
	return a.tree.Set(name, metadataOf(h))
}

func (a *applier) make(name string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := a.tree.File(name)
		if err != nil {
			return err
		}
		return errors.Join(a.fill(f, h, content), f.Close())
	case tar.TypeSymlink:
		return a.tree.Symlink(name, h.Linkname)
	case tar.TypeLink:
		if h.Linkname == "." || !valid(h.Linkname) {
			return errors.New("it is a link without a valid target")
		}
		return a.tree.Link(h.Linkname, name)
	case tar.TypeFifo, tar.TypeChar, tar.TypeBlock:
		return a.tree.Node(name, h.Typeflag, uint32(h.Devmajor), uint32(h.Devminor))
	}
	return fmt.Errorf("unknown entry type %q", h.Typeflag)
}

// fill writes the content of a regular file.
func (a *applier) fill(f File, h *tar.Header, content io.Reader) error {
	text, holes := h.PAXRecords[sizeRecord]
	if !holes {
		return a.copy(f, content, piece{0, h.Size})
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return errors.New("its size is not valid")
	}
	pieces, err := readPieces(content, h.Size, size)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if err := a.copy(f, content, p); err != nil {
			return err
		}
	}
	return f.Truncate(size)
}

// readPieces reads the list of pieces of a sparse file. The file has size bytes, and the archive
// contains held bytes for it.
func readPieces(content io.Reader, held, size int64) ([]piece, error) {
	var n uint64
	if err := binary.Read(content, binary.LittleEndian, &n); err != nil {
		return nil, fmt.Errorf("read its pieces: %w", err)
	}
	if n > uint64(held)/pieceSize {
		return nil, errors.New("it has more pieces than its entry can hold")
	}
	pieces := make([]piece, 0, min(n, bufferSize/pieceSize)) // the capacity is limited, because n is not trusted
	var last int64
	for range n {
		var b [pieceSize]byte
		if _, err := io.ReadFull(content, b[:]); err != nil {
			return nil, fmt.Errorf("read its pieces: %w", err)
		}
		p := piece{int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:]))}
		if p.offset < last || p.length < 0 || p.length > size-p.offset {
			return nil, errors.New("its pieces overlap, are unsorted, or exceed its size")
		}
		last = p.offset + p.length
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// copy writes one piece of a file.
func (a *applier) copy(to io.WriterAt, content io.Reader, p piece) error {
	n, err := io.CopyBuffer(onlyWriter{io.NewOffsetWriter(to, p.offset)}, io.LimitReader(content, p.length), a.buffer)
	if err == nil && n != p.length {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func metadataOf(h *tar.Header) Metadata {
	m := Metadata{Mode: uint32(h.Mode) & 0o7777, UID: uint32(h.Uid), GID: uint32(h.Gid), Modified: h.ModTime, Symlink: h.Typeflag == tar.TypeSymlink}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrRecord); ok && !strings.HasPrefix(key, overlayRecord) {
			if m.Xattrs == nil {
				m.Xattrs = map[string]string{}
			}
			m.Xattrs[name] = value
		}
	}
	return m
}

// valid reports whether a name is well-formed and stays in the tree.
func valid(name string) bool {
	if name == "." {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.Contains(name, "\x00")
}
