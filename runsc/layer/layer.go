// Package layer writes down what a machine changed of its environment, and makes another machine's the same.
//
// The form is a tar archive of the POSIX.1-2001 format ("pax"). Its names are relative to the root of the environment, without a leading "/" or "./"; that root
// itself is "./". Those of folders end with "/", and a folder comes before what is in it; there is no other order. What an entry says is so in place of what
// the environment has under its name:
//
//   - A folder has this owner, mode and time. What the environment has in it is still there, unless the entry has the record
//     SCHILY.xattr.trusted.overlay.opaque=y: then nothing of that is.
//   - A character device of the numbers 0, 0 says that there is nothing under this name, and below it.
//   - A hard link is one more name of an earlier entry, a whole name as above.
//   - A regular file, a symlink, a FIFO and a device are there as the entry says. Sockets are left out.
//   - A file with holes has the record PYRO.size, its size in decimal, and its content in the archive is the number of its pieces, for each the offset and the
//     length, ascending and apart, and then the data of all, one after the other. The numbers are unsigned, of 8 bytes, little-endian.
//
// Owners are numbers. Times are those of the last change, in nanoseconds. Extended attributes are records SCHILY.xattr.NAME=VALUE, their values any bytes, but
// those of POSIX access control lists (system.posix_acl_access and system.posix_acl_default) in base64 without padding. One with "=" in its name is left out,
// and what there is of a file's after 256 KiB.
//
// All of it is as the machine's users made it: names, links and numbers are hostile.
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

// The records of the archive beside those of its format.
const (
	xattrRecord   = "SCHILY.xattr."
	overlayRecord = xattrRecord + "trusted.overlay." // what gVisor keeps for itself
	opaqueRecord  = overlayRecord + "opaque"
	accessRecord  = xattrRecord + "system.posix_acl_access"
	defaultRecord = xattrRecord + "system.posix_acl_default"
	sizeRecord    = "PYRO.size"
)

// piece is a part of a file that holds data.
type piece struct{ offset, length int64 }

const (
	pieceSize  = 2 * 8
	bufferSize = 256 << 10
	maxXattrs  = 256 << 10 // of an entry, in all
	maxName    = 256 << 10 // of an entry, with what it is a link to: package tar reads no entry that says more than 1 MiB of itself
)

// isWhiteout tells whether an entry says that there is nothing.
func isWhiteout(h *tar.Header) bool {
	return h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0
}

// Source is where a layer is written from.
type Source struct {
	// Description is what gVisor tells of the file system that holds it (tmpfs.FSCheckpointWrite): a tar archive too, in which files have, instead of their
	// content, its size and where it is in Pages.
	Description io.Reader
	Pages       io.ReaderAt
	// Details gives what the description leaves out: the time to the nanosecond, and extended attributes of any value. Names are as those that a Tree has.
	Details func(name string) (modified time.Time, xattrs map[string]string, err error)
}

// Write writes a layer.
func Write(to io.Writer, from Source) error {
	w := writer{tar: tar.NewWriter(to), Source: from, buffer: make([]byte, bufferSize), whiteouts: map[string]bool{}}
	for r := tar.NewReader(from.Description); ; {
		h, err := r.Next()
		if err == io.EOF {
			return w.tar.Close()
		}
		if err != nil {
			return fmt.Errorf("read what has changed: %w", err)
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
	whiteouts map[string]bool // by name: those that are no links
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
		if w.whiteouts[h.Linkname] { // to gVisor they are all one file
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

// details says what the description leaves out. told are its records, which have more than is seen of a file: whether it is opaque, and its lists.
func (w *writer) details(h *tar.Header, told map[string]string) error {
	modified, xattrs, err := w.Details(nameOf(h.Name))
	if err != nil {
		return err
	}
	h.ModTime = modified
	for _, key := range []string{opaqueRecord, accessRecord, defaultRecord} {
		if value, ok := told[key]; ok {
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

// nameOf gives the name that an entry has in a Tree.
func nameOf(entry string) string { return strings.TrimSuffix(entry, "/") }

// trim takes "./" off a name, other than that of the root.
func trim(name string) string {
	if trimmed := strings.TrimPrefix(name, "./"); trimmed != "" {
		return trimmed
	}
	return name
}

// segment is a part of a file that is in pages at an offset. It is what gVisor writes.
type segment struct{ Start, End, At uint64 }

// file writes a regular file, of which content tells where it is.
func (w *writer) file(h *tar.Header, content io.Reader) error {
	var size uint64
	if err := binary.Read(content, binary.LittleEndian, &size); err != nil {
		return fmt.Errorf("read its size: %w", err)
	}
	if size > 1<<63-1 {
		return errors.New("its size is no size of a file")
	}
	var segments []segment
	var held, last uint64
	for {
		var s segment
		if err := binary.Read(content, binary.LittleEndian, &s); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read where it is: %w", err)
		}
		if s.Start < last || s.End < s.Start {
			return errors.New("its pieces are in no order")
		}
		last = s.End
		s.End = min(s.End, size) // the last page is longer than the file
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

// onlyWriter hides what else a writer can do, for a buffer to be used.
type onlyWriter struct{ io.Writer }
