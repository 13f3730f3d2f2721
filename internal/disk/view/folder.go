package view

import (
	"io"
	"io/fs"
	"syscall"
)

// folder is an open directory. The first call of ReadDir reads the entries.
type folder struct {
	info   fs.FileInfo
	path   string
	list   func(name string) ([]fs.DirEntry, error)
	listed bool
	left   []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }
func (f *folder) Read([]byte) (int, error)   { return 0, pathError("read", f.path, syscall.EISDIR) }

func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.listed {
		entries, err := f.list(f.path)
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

// file is an open file. A SectionReader provides its content.
type file struct {
	*io.SectionReader
	info fs.FileInfo
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

// empty returns an open file without content.
func empty(info fs.FileInfo) fs.File { return &file{io.NewSectionReader(nil, 0, 0), info} }
