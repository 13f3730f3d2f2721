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

// Limits contains the limits for an archive. A zero field means no limit.
type Limits struct {
	Bytes   int64 // total size of all files, including holes
	Entries int
	Newest  time.Time // The filter replaces later times with this one.
}

// Linux does not support longer names and link targets. Units are bytes.
const (
	maxPath   = 4096
	maxName   = 255
	maxXattrs = 16
)

// maxFolderXattrs limits the extended attributes of all folders, in bytes, because package mkext4
// keeps them in memory until it has the whole archive.
const maxFolderXattrs = 16 << 20

const readAhead = 64 << 10 // bytes

// filter reads an archive and passes the entries that are safe in a file system to the function
// take. It checks that names are below the root, types are known and sizes are within the limits.
// It drops extended attributes, except file capabilities and user attributes. The function take
// must read either all or none of an entry's content.
func filter(in io.Reader, limits Limits, take func(*tar.Header, io.Reader) error) error {
	source := &sourceReader{in: in}
	archive := tar.NewReader(bufio.NewReaderSize(source, readAhead)) // tar reads headers in small pieces
	bytes, entries, attributes := int64(0), 0, 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return source.cause(err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		clean, err := sanitize(header)
		if err != nil {
			return err
		}
		bytes, entries = bytes+clean.Size, entries+1
		if limits.Entries > 0 && entries > limits.Entries {
			return fault.Newf(fault.Exhausted, "the archive has more than %d files", limits.Entries)
		}
		// The sum exceeds the limit by at most the size of one file. That size is below 1<<63 in
		// archive/tar.
		if limits.Bytes > 0 && (bytes < 0 || bytes > limits.Bytes) {
			return fault.Newf(fault.Exhausted, "the archive unpacks to more than %d MiB", limits.Bytes>>20)
		}
		if clean.Typeflag == tar.TypeDir {
			for key, value := range clean.PAXRecords {
				attributes += len(key) + len(value)
			}
		}
		if attributes > maxFolderXattrs {
			return fault.Newf(fault.Exhausted, "the attributes of the folders have more than %d MiB", maxFolderXattrs>>20)
		}
		if !limits.Newest.IsZero() && clean.ModTime.After(limits.Newest) {
			clean.ModTime = limits.Newest
		}
		if err := take(clean, entryReader{archive, source}); err != nil {
			return err
		}
	}
}

// sourceReader stores errors of the source, to distinguish them from errors of the archive.
type sourceReader struct {
	in  io.Reader
	err error
}

func (r *sourceReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (r *sourceReader) cause(err error) error {
	if r.err != nil {
		return r.err
	}
	return corrupt("", err)
}

// entryReader reads the content of an entry. It returns the same errors as filter.
type entryReader struct {
	content io.Reader
	source  *sourceReader
}

func (r entryReader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)
	if err != nil && err != io.EOF {
		err = r.source.cause(err)
	}
	return n, err
}

func sanitize(header *tar.Header) (*tar.Header, error) {
	name, err := beneathRoot(header.Name)
	if err != nil {
		return nil, corrupt(header.Name, err)
	}
	clean := &tar.Header{
		Typeflag: header.Typeflag, Name: name, Mode: header.Mode & 0o7777, Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime,
		Devmajor: header.Devmajor, Devminor: header.Devminor, PAXRecords: allowedXattrs(header.PAXRecords),
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		clean.Typeflag, clean.Size = tar.TypeReg, header.Size
	case tar.TypeLink:
		if clean.Linkname, err = beneathRoot(header.Linkname); err != nil {
			return nil, corrupt(header.Name, err)
		}
		clean.PAXRecords = nil
	case tar.TypeSymlink:
		// Only the machine follows these links, so any valid target is allowed.
		if header.Linkname == "" || len(header.Linkname) >= maxPath || strings.ContainsRune(header.Linkname, 0) {
			return nil, corrupt(header.Name, errors.New("invalid link target"))
		}
		clean.Linkname = header.Linkname
	case tar.TypeChar, tar.TypeBlock:
		if header.Devmajor < 0 || header.Devmajor > 0xfff || header.Devminor < 0 || header.Devminor > 0xfffff {
			return nil, corrupt(header.Name, errors.New("invalid device number"))
		}
	case tar.TypeDir, tar.TypeFifo:
	default:
		return nil, corrupt(header.Name, fmt.Errorf("unknown entry type %q", header.Typeflag))
	}
	if header.Uid < 0 || header.Gid < 0 || int64(header.Uid) > 1<<32-2 || int64(header.Gid) > 1<<32-2 {
		return nil, corrupt(header.Name, errors.New("invalid owner"))
	}
	return clean, nil
}

// beneathRoot makes a name relative to the root. It rejects names that contain "..".
func beneathRoot(name string) (string, error) {
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "..") {
		return "", errors.New(`the name contains ".."`)
	}
	if len(name) >= maxPath || strings.ContainsRune(name, 0) || slices.ContainsFunc(parts, func(p string) bool { return len(p) > maxName }) {
		return "", errors.New("invalid name")
	}
	clean := path.Clean("/" + name)[1:]
	if clean == "" {
		clean = "."
	}
	return clean, nil
}

const xattrPrefix = "SCHILY.xattr."

func allowedXattrs(records map[string]string) map[string]string {
	allowed := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || name != "security.capability" && (!strings.HasPrefix(name, "user.") || name == "user.") {
			continue
		}
		// All attributes must fit into one block. Each attribute needs space for its name, its
		// value and about 20 more bytes.
		if len(allowed) < maxXattrs && len(name)+len(records[key]) <= 200 {
			allowed[strings.Clone(key)] = strings.Clone(records[key]) // parts of a larger string
		}
	}
	return allowed
}

func corrupt(name string, err error) error {
	if name == "" {
		return &fault.Error{Op: "read archive", Kind: fault.Corrupt, Err: err}
	}
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	return &fault.Error{Op: "read archive at", Subject: name, Kind: fault.Corrupt, Err: err}
}
