package ext4

import (
	"io"
	"io/fs"
	"syscall"
)

// file is an open file that is not a directory.
type file struct {
	*io.SectionReader
	fsys *FS
	info info
	path string
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.SectionReader.Read(p)
	return n, f.failure(err)
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.SectionReader.ReadAt(p, offset)
	return n, f.failure(err)
}

// NextData returns the first range of a regular file that has blocks in the image and ends after
// offset. If no such range exists, the result is an empty range. Bytes outside of these ranges are
// zeros. The range can begin before offset.
func (f *file) NextData(offset int64) (start, end int64, err error) {
	size := f.fsys.blockSize
	for f.info.Mode().IsRegular() && offset >= 0 && offset < f.info.Size() {
		r, err := f.fsys.find(f.info.node, offset/size)
		if err != nil {
			return 0, 0, pathError("read", f.path, err)
		}
		offset = offset / size * size
		if r.start != 0 {
			return offset, min(offset+r.count*size, f.info.Size()), nil
		}
		offset += r.count * size
	}
	return 0, 0, nil
}

func (f *file) failure(err error) error {
	if err == io.EOF {
		return err
	}
	return pathError("read", f.path, err)
}

// folder is an open directory. The first call of ReadDir reads the entries.
type folder struct {
	info   info
	fsys   *FS
	path   string
	listed bool
	left   []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }
func (f *folder) Read([]byte) (int, error)   { return 0, pathError("read", f.path, syscall.EISDIR) }

func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.listed {
		entries, err := f.fsys.ReadDir(f.path)
		if err != nil {
			return nil, err
		}
		f.listed, f.left = true, entries
	}
	if n <= 0 {
		n = len(f.left)
	} else if len(f.left) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.left))
	part := f.left[:n:n]
	f.left = f.left[n:]
	return part, nil
}
