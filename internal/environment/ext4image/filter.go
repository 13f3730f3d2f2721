package ext4image

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits bound what an archive may hold. A field that is 0 is not bounded.
type Limits struct {
	Bytes   int64 // of all files together, holes counted
	Entries int
	Newest  time.Time // later times become this one
}

// Names and targets longer than Linux itself takes make no file system that could be used.
const (
	maxPath   = 4096
	maxName   = 255
	maxXattrs = 16
)

const readAhead = 64 << 10 // bytes

// filter reads an archive entry by entry and gives on only what can be put into a file system safely: names beneath the root, known kinds of entry, sizes
// within limits, and of the extended attributes file capabilities and the user's own. The content must be read to the end of its entry's size, or not at all.
func filter(in io.Reader, limits Limits, take func(*tar.Header, io.Reader) error) error {
	source := &rememberingReader{in: in}
	archive := tar.NewReader(bufio.NewReaderSize(source, readAhead)) // headers are read in small pieces
	bytes, entries := int64(0), 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return source.blame(err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		clean, err := cleaned(header)
		if err != nil {
			return err
		}
		bytes, entries = bytes+clean.Size, entries+1
		if limits.Entries > 0 && entries > limits.Entries {
			return fault.Newf(fault.Exhausted, "the archive holds more than %d files", limits.Entries)
		}
		// The sum can't pass the limit by more than one file's size, which archive/tar keeps below 1<<63.
		if limits.Bytes > 0 && (bytes < 0 || bytes > limits.Bytes) {
			return fault.Newf(fault.Exhausted, "the archive unpacks to more than %d MiB", limits.Bytes>>20)
		}
		if !limits.Newest.IsZero() && clean.ModTime.After(limits.Newest) {
			clean.ModTime = limits.Newest
		}
		if err := take(clean, blamingReader{archive, source}); err != nil {
			return err
		}
	}
}

// rememberingReader tells errors of the source, which are passed on, from those of the archive in it.
type rememberingReader struct {
	in  io.Reader
	err error
}

func (r *rememberingReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (r *rememberingReader) blame(err error) error {
	if r.err != nil {
		return r.err
	}
	return hostile("", err)
}

// blamingReader is the content of an entry, whose errors are those of filter.
type blamingReader struct {
	content io.Reader
	source  *rememberingReader
}

func (r blamingReader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)
	if err != nil && err != io.EOF {
		err = r.source.blame(err)
	}
	return n, err
}

func cleaned(header *tar.Header) (*tar.Header, error) {
	name, err := beneathRoot(header.Name)
	if err != nil {
		return nil, hostile(header.Name, err)
	}
	clean := &tar.Header{
		Typeflag: header.Typeflag, Name: name, Mode: header.Mode & 0o7777, Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime,
		Devmajor: header.Devmajor, Devminor: header.Devminor, PAXRecords: keptXattrs(header.PAXRecords),
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		clean.Typeflag, clean.Size = tar.TypeReg, header.Size
	case tar.TypeLink:
		if clean.Linkname, err = beneathRoot(header.Linkname); err != nil {
			return nil, hostile(header.Name, err)
		}
		clean.PAXRecords = nil
	case tar.TypeSymlink:
		// A symbolic link is followed only inside the machine, so it may say anything that a link can hold.
		if header.Linkname == "" || len(header.Linkname) >= maxPath || strings.ContainsRune(header.Linkname, 0) {
			return nil, hostile(header.Name, errors.New("impossible link"))
		}
		clean.Linkname = header.Linkname
	case tar.TypeChar, tar.TypeBlock:
		if header.Devmajor < 0 || header.Devmajor > 0xfff || header.Devminor < 0 || header.Devminor > 0xfffff {
			return nil, hostile(header.Name, errors.New("impossible device number"))
		}
	case tar.TypeDir, tar.TypeFifo:
	default:
		return nil, hostile(header.Name, fmt.Errorf("unknown kind of entry %q", header.Typeflag))
	}
	if header.Uid < 0 || header.Gid < 0 || int64(header.Uid) > 1<<32-2 || int64(header.Gid) > 1<<32-2 {
		return nil, hostile(header.Name, errors.New("impossible owner"))
	}
	return clean, nil
}

// beneathRoot makes a name relative to the root and refuses one that climbs.
func beneathRoot(name string) (string, error) {
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "..") {
		return "", errors.New("name has a part that climbs")
	}
	if len(name) >= maxPath || strings.ContainsRune(name, 0) || slices.ContainsFunc(parts, func(p string) bool { return len(p) > maxName }) {
		return "", errors.New("impossible name")
	}
	clean := path.Clean("/" + name)[1:]
	if clean == "" {
		clean = "."
	}
	return clean, nil
}

const xattrPrefix = "SCHILY.xattr."

func keptXattrs(records map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || name != "security.capability" && (!strings.HasPrefix(name, "user.") || name == "user.") {
			continue
		}
		// They must all fit into one block of the file system, where each takes its name, value and some 20 bytes.
		if len(kept) < maxXattrs && len(name)+len(records[key]) <= 200 {
			kept[key] = records[key]
		}
	}
	return kept
}

func hostile(name string, err error) error {
	if name == "" {
		return &fault.Error{Op: "read archive", Kind: fault.Corrupt, Err: err}
	}
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	return &fault.Error{Op: "read archive at", Subject: name, Kind: fault.Corrupt, Err: err}
}
