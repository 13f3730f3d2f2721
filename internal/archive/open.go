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

// Open opens a folder, also by a link to it, or an archive: a .tar, .tar.gz or .tgz file by its name, which has to be what its name says. The source has
// to be closed. Kinds: NotFound; Permission; Unsupported for other archives and files; Invalid for a file that is not what its name says.
func Open(path string) (Source, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, opOpen, path, "there is no such file or folder")
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
		return nil, fault.New(fault.Unsupported, opOpen, path, "it is neither a folder nor a regular file")
	}
	head := make([]byte, block)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.Wrap(cause(err), opOpen, path)
	}
	compressed, err := recognise(path, head[:n])
	if err != nil {
		return nil, err
	}
	return &packed{file, compressed, info}, nil
}

// recognise tells whether the archive of a name and a beginning is compressed.
func recognise(path string, head []byte) (compressed bool, err error) {
	name, isGzip := strings.ToLower(path), bytes.HasPrefix(head, []byte{0x1f, 0x8b})
	switch plain := strings.HasSuffix(name, ".tar"); {
	case plain && isTar(head):
		return false, nil
	case plain && isGzip:
		return false, fault.New(fault.Invalid, opOpen, path, "it is compressed, though its name says .tar").WithHint("mv %q %q", path, path+".gz")
	case plain:
		return false, fault.New(fault.Invalid, opOpen, path, "it is no tar archive, though its name says so")
	}
	for _, suffix := range []string{".tar.gz", ".tgz"} {
		switch {
		case !strings.HasSuffix(name, suffix):
		case isGzip:
			return true, nil
		case isTar(head):
			mended := path[:len(path)-len(suffix)] + ".tar"
			return false, fault.New(fault.Invalid, opOpen, path, "it is not compressed, though its name says %s", suffix).WithHint("mv %q %q", path, mended)
		default:
			return false, fault.New(fault.Invalid, opOpen, path, "it is not compressed with gzip, though its name says %s", suffix)
		}
	}
	return false, unsupported(path, name, head, isGzip)
}

// others are kinds of archives that pyro doesn't read, and how they are unpacked.
var others = []struct{ suffix, unpack string }{
	{".zip", "unzip %[1]q -d %[2]q, and give the folder"},
	{".7z", "7z x %[1]q -o%[2]q, and give the folder"},
	{".tar.bz2", unpackTar}, {".tbz2", unpackTar}, {".tar.xz", unpackTar}, {".txz", unpackTar}, {".tar.zst", unpackTar}, {".tzst", unpackTar},
	{".tar.lz", unpackTar}, {".tar.z", unpackTar},
}

const unpackTar = "mkdir %[2]q && tar -xf %[1]q -C %[2]q, and give the folder"

func unsupported(path, name string, head []byte, isGzip bool) error {
	f := fault.New(fault.Unsupported, opOpen, path, "it is neither a folder nor a .tar, .tar.gz or .tgz file")
	for _, other := range others {
		if strings.HasSuffix(name, other.suffix) {
			return f.WithHint(other.unpack, path, path[:len(path)-len(other.suffix)])
		}
	}
	switch {
	case isTar(head):
		return f.WithHint("mv %q %q", path, path+".tar")
	case isGzip:
		mended := strings.TrimSuffix(path, ".gz") + ".tar.gz"
		return f.WithHint("gzip -dc %q | tar -t, and if that is a tar archive, mv %[1]q %q", path, mended)
	}
	return f
}

// block is the grain of tar.
const block = 512

// isTar tells whether a block can be the first of a tar archive: a header, by its sum, in which that itself counts as spaces; or part of the end mark.
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

// cause is an error without the path that the caller has already.
func cause(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}
