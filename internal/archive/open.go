package archive

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const opOpen = "open source"

// Open opens a directory or an archive. If path is a symbolic link, Open follows it. An archive is
// a .tar, .tar.gz or .tgz file whose content matches its name. The caller must close the source.
//
// Errors have the following kinds:
//   - NotFound.
//   - Permission.
//   - Unsupported for other archives and files.
//   - Invalid if the content does not match the name.
func Open(path string) (Source, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, opOpen, path, "it does not exist")
	}
	if err != nil {
		return nil, fault.Wrap(cause(err), opOpen, path)
	}
	source, err := open(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return source, nil
}

func open(file *os.File) (Source, error) {
	path := file.Name()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fault.Wrap(cause(err), opOpen, path)
	case info.IsDir():
		return &folder{file}, nil
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.Unsupported, opOpen, path, "it is neither a directory nor a regular file")
	}
	head := make([]byte, block)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.Wrap(cause(err), opOpen, path)
	}
	compressed, err := detectGzip(path, head[:n])
	if err != nil {
		return nil, err
	}
	return &tarFile{file, compressed, info}, nil
}

// Named reports whether a path has the name of an archive that Open can read.
func Named(path string) bool {
	name := strings.ToLower(path)
	return strings.HasSuffix(name, ".tar") || strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// detectGzip reports whether an archive is compressed. It examines the name and the first block.
func detectGzip(path string, head []byte) (compressed bool, err error) {
	name, isGzip := strings.ToLower(path), bytes.HasPrefix(head, []byte{0x1f, 0x8b})
	switch plain := strings.HasSuffix(name, ".tar"); {
	case plain && isTar(head):
		return false, nil
	case plain && isGzip:
		return false, fault.New(fault.Invalid, opOpen, path, "it is compressed, but its name ends in .tar").WithHint("mv %q %q", path, path+".gz")
	case plain:
		return false, fault.New(fault.Invalid, opOpen, path, "it is not a tar archive, but its name ends in .tar")
	}
	for _, suffix := range []string{".tar.gz", ".tgz"} {
		switch {
		case !strings.HasSuffix(name, suffix):
		case isGzip:
			return true, nil
		case isTar(head):
			renamed := path[:len(path)-len(suffix)] + ".tar"
			return false, fault.New(fault.Invalid, opOpen, path, "it is not compressed, but its name ends in %s", suffix).WithHint("mv %q %q", path, renamed)
		default:
			return false, fault.New(fault.Invalid, opOpen, path, "it is not compressed with gzip, but its name ends in %s", suffix)
		}
	}
	return false, unsupported(path, name, head, isGzip)
}

// otherFormats lists unsupported archive formats, with commands that unpack them.
var otherFormats = []struct{ suffix, unpack string }{
	{".zip", "unzip %[1]q -d %[2]q, and pass the directory"},
	{".7z", "7z x %[1]q -o%[2]q, and pass the directory"},
	{".tar.bz2", unpackTar}, {".tbz2", unpackTar}, {".tar.xz", unpackTar}, {".txz", unpackTar}, {".tar.zst", unpackTar}, {".tzst", unpackTar},
	{".tar.lz", unpackTar}, {".tar.z", unpackTar},
}

const unpackTar = "mkdir %[2]q && tar -xf %[1]q -C %[2]q, and pass the directory"

func unsupported(path, name string, head []byte, isGzip bool) error {
	f := fault.New(fault.Unsupported, opOpen, path, "it is neither a directory nor a .tar, .tar.gz or .tgz file")
	for _, other := range otherFormats {
		if strings.HasSuffix(name, other.suffix) {
			return f.WithHint(other.unpack, path, path[:len(path)-len(other.suffix)])
		}
	}
	switch {
	case isTar(head) && len(bytes.Trim(head, "\x00")) > 0: // zeros are not only an empty archive
		return f.WithHint("mv %q %q", path, path+".tar")
	case isGzip:
		renamed := strings.TrimSuffix(path, ".gz") + ".tar.gz"
		return f.WithHint("gzip -dc %q | tar -t, and if that is a tar archive, mv %[1]q %q", path, renamed)
	}
	return f
}

// block is the block size of a tar archive in bytes.
const block = 512

// isTar reports whether a tar archive can begin with a given block: a header with a valid checksum,
// or the end marker. The checksum treats its own field as spaces.
func isTar(head []byte) bool {
	if len(head) < block {
		return false
	}
	said := head[148:156]
	sum := int64(len(said)) * ' '
	for _, b := range head[:148] {
		sum += int64(b)
	}
	for _, b := range head[156:block] {
		sum += int64(b)
	}
	if sum == int64(len(said))*' ' {
		return len(bytes.Trim(said, "\x00")) == 0
	}
	n, err := strconv.ParseInt(string(bytes.Trim(said, " \x00")), 8, 64)
	return err == nil && n == sum
}

// cause returns an error without its path. The caller adds the path.
func cause(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}
