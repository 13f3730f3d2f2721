// Package layer saves the changes to a machine's environment, and applies them to another machine.
//
// The format is a tar archive, POSIX.1-2001 ("pax"). Names are relative to the root of the
// environment, without "/" or "./" at the start. The root itself is "./". Names of folders end with
// "/". A folder comes before its content. Otherwise, entries can have any order. An entry replaces
// the file with the same name in the environment:
//   - A folder gets the owner, mode and time of the entry, and keeps its content from the
//     environment. If the entry has the record SCHILY.xattr.trusted.overlay.opaque=y, the old
//     content is removed.
//   - A character device with the numbers 0, 0 removes the name and everything below it.
//   - A hard link is another name for an earlier entry. The link target is the full name of that
//     entry.
//   - Regular files, symbolic links, FIFOs and devices replace the file. Sockets are left out.
//   - A sparse file has the record PYRO.size, which is its size in decimal. In the archive, its
//     content is the number of pieces, then the offset and length of each piece, then the data of
//     all pieces. Pieces are in order and do not overlap. Numbers are unsigned, little-endian, and
//     have 8 bytes.
//
// Owners are numbers. Times are modification times in nanoseconds. Extended attributes are records
// SCHILY.xattr.NAME=VALUE, and values can contain any bytes. The values of POSIX access control
// lists (system.posix_acl_access and system.posix_acl_default) are in base64 without padding.
// Attributes with "=" in their names are left out. If the attributes of a file exceed 256 KiB, the
// excess is left out.
//
// The users of the machine control the content, so names, links and numbers can be hostile.
package layer

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// These are the names of pax records in the archive.
const (
	xattrRecord   = "SCHILY.xattr."
	overlayRecord = xattrRecord + "trusted.overlay." // gVisor's own attributes
	opaqueRecord  = overlayRecord + "opaque"
	accessRecord  = xattrRecord + "system.posix_acl_access"
	defaultRecord = xattrRecord + "system.posix_acl_default"
	sizeRecord    = "PYRO.size"
)

// piece is a part of a sparse file that contains data.
type piece struct{ offset, length int64 }

const (
	pieceSize  = 2 * 8
	bufferSize = 256 << 10
	maxXattrs  = 256 << 10 // For all attributes of an entry, in bytes.
	// For the name and link target of an entry, in bytes. Package tar rejects headers of more than
	// 1 MiB.
	maxName = 256 << 10
)

// isWhiteout reports whether an entry removes a name.
func isWhiteout(h *tar.Header) bool {
	return h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0
}

// Source is the input of [Write].
type Source struct {
	// Description is gVisor's description of the layer's file system (tmpfs.FSCheckpointWrite). It
	// is a tar archive too. For a regular file it contains the size and the positions in Pages,
	// instead of the content.
	Description io.Reader
	Pages       io.ReaderAt
	// Details gives the metadata that the description lacks: times in nanoseconds, and extended
	// attributes with any value. The names are the same as in Tree.
	Details func(name string) (modified time.Time, xattrs map[string]string, err error)
}

// Write writes a layer as an archive.
func Write(to io.Writer, from Source) error {
	w := writer{tar: tar.NewWriter(to), Source: from, buffer: make([]byte, bufferSize), whiteouts: map[string]bool{}}
	for r := tar.NewReader(from.Description); ; {
		h, err := r.Next()
		if err == io.EOF {
			return w.tar.Close()
		}
		if err != nil {
			return fmt.Errorf("read the changes: %w", err)
		}
		if err := w.entry(h, r); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

type writer struct {
	Source
	tar       *tar.Writer
	buffer    []byte
	whiteouts map[string]bool // names of the whiteouts that are no hard links
}

func (w *writer) entry(from *tar.Header, content io.Reader) error {
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: from.Typeflag, Name: trim(from.Name), Linkname: from.Linkname, Mode: from.Mode, Uid: from.Uid, Gid: from.Gid,
		ModTime: from.ModTime, Devmajor: from.Devmajor, Devminor: from.Devminor, PAXRecords: map[string]string{},
	}
	switch {
	case len(h.Name)+len(h.Linkname) > maxName:
		return errors.New("its name is too long")
	case isWhiteout(h):
		w.whiteouts[h.Name] = true
		return w.tar.WriteHeader(h)
	case h.Typeflag == tar.TypeLink:
		h.Linkname = trim(h.Linkname)
		if w.whiteouts[h.Linkname] { // gVisor uses hard links to one file for all whiteouts
			h.Typeflag, h.Linkname = tar.TypeChar, ""
		}
		return w.tar.WriteHeader(h)
	}
	if err := w.details(h, from.PAXRecords); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeReg {
		return w.file(h, content)
	}
	return w.tar.WriteHeader(h)
}

// details adds the metadata that the description lacks. The parameter records contains the pax
// records of the description. They include opaque folders and access control lists, which the
// function Details does not return.
func (w *writer) details(h *tar.Header, records map[string]string) error {
	modified, xattrs, err := w.Details(nameOf(h.Name))
	if err != nil {
		return err
	}
	h.ModTime = modified
	for _, key := range []string{opaqueRecord, accessRecord, defaultRecord} {
		if value, ok := records[key]; ok {
			h.PAXRecords[key] = value
		}
	}
	held := 0
	for _, name := range slices.Sorted(maps.Keys(xattrs)) {
		key := xattrRecord + name
		held += len(key) + len(xattrs[name])
		if _, ok := h.PAXRecords[key]; !ok && !strings.Contains(name, "=") && held <= maxXattrs {
			h.PAXRecords[key] = xattrs[name]
		}
	}
	return nil
}

// nameOf converts the name of an entry to a name in a Tree.
func nameOf(entry string) string { return strings.TrimSuffix(entry, "/") }

// trim removes "./" from the start of a name. The root keeps its name "./".
func trim(name string) string {
	if trimmed := strings.TrimPrefix(name, "./"); trimmed != "" {
		return trimmed
	}
	return name
}

// segment is a part of a file: the start and end in the file, and the offset in Pages. gVisor
// writes segments in this form.
type segment struct{ Start, End, At uint64 }

// file writes a regular file. The parameter content is the size and the list of segments.
func (w *writer) file(h *tar.Header, content io.Reader) error {
	var size uint64
	if err := binary.Read(content, binary.LittleEndian, &size); err != nil {
		return fmt.Errorf("read its size: %w", err)
	}
	if size > 1<<63-1 {
		return errors.New("its size is not valid")
	}
	var segments []segment
	var held, last uint64
	for {
		var s segment
		if err := binary.Read(content, binary.LittleEndian, &s); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read its pieces: %w", err)
		}
		if s.Start < last || s.End < s.Start {
			return errors.New("its pieces overlap or are unsorted")
		}
		last = s.End
		s.End = min(s.End, size) // the last page can extend beyond the end of the file
		if s.Start < s.End {
			segments = append(segments, s)
			held += s.End - s.Start
		}
	}
	var index []byte
	h.Size = int64(held)
	if held != size {
		h.PAXRecords[sizeRecord] = strconv.FormatUint(size, 10)
		index = binary.LittleEndian.AppendUint64(index, uint64(len(segments)))
		for _, s := range segments {
			index = binary.LittleEndian.AppendUint64(index, s.Start)
			index = binary.LittleEndian.AppendUint64(index, s.End-s.Start)
		}
		h.Size += int64(len(index))
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return err
	}
	if _, err := w.tar.Write(index); err != nil {
		return err
	}
	for _, s := range segments {
		data := io.NewSectionReader(w.Pages, int64(s.At), int64(s.End-s.Start))
		if n, err := io.CopyBuffer(onlyWriter{w.tar}, data, w.buffer); err != nil {
			return fmt.Errorf("read its content: %w", err)
		} else if n != int64(s.End-s.Start) {
			return fmt.Errorf("read its content: %w", io.ErrUnexpectedEOF)
		}
	}
	return nil
}

// onlyWriter has no method except Write, so that io.CopyBuffer uses the buffer.
type onlyWriter struct{ io.Writer }
