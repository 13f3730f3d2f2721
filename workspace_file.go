package pyro

import (
	"context"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// fileInfo describes a file of a workspace.
type fileInfo struct {
	name  string
	entry workspace.Entry
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.entry.Size }
func (i fileInfo) ModTime() time.Time { return time.Unix(0, i.entry.ModTime) }
func (i fileInfo) Mode() fs.FileMode  { return i.entry.FileMode() }
func (i fileInfo) IsDir() bool        { return i.Mode().IsDir() }

// Sys returns the *FileEntry of the file, which includes the owner.
func (i fileInfo) Sys() any {
	e := newFileEntry(&i.entry, "")
	return &e
}

// openFolder is an open folder. The first ReadDir reads the entries of the folder.
type openFolder struct {
	fsys    *FS
	name    string
	info    fs.FileInfo
	listed  bool
	entries []fs.DirEntry
	closed  bool
}

func (d *openFolder) Stat() (fs.FileInfo, error) {
	if d.closed {
		return nil, &fs.PathError{Op: "stat", Path: d.name, Err: fs.ErrClosed}
	}
	return d.info, nil
}

func (d *openFolder) Read([]byte) (int, error) {
	return 0, d.fsys.failed("read", d.name, invalid("it is a folder"))
}

func (d *openFolder) Close() error {
	d.closed = true
	return nil
}

func (d *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	}
	if !d.listed {
		entries, err := d.fsys.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.listed, d.entries = true, entries
	}
	count := len(d.entries)
	if n > 0 {
		if count == 0 {
			return nil, io.EOF
		}
		count = min(n, count)
	}
	next := d.entries[:count:count]
	d.entries = d.entries[count:]
	return next, nil
}

// openFile is an open regular file. The first Read starts a stream of the content.
type openFile struct {
	fsys *FS
	name string
	info fs.FileInfo

	mu     sync.Mutex
	closed bool
	offset int64 // offset of the next byte that Read returns
	stream *fileStream
}

// fileStream is a stream of a file's content, starting at an offset.
type fileStream struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (f *openFile) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	return f.info, nil
}

func (f *openFile) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrClosed}
	case len(b) == 0:
		return 0, nil
	case f.stream == nil:
		f.stream = f.fsys.streamFrom(f.name, f.offset)
	}
	n, err := f.stream.Read(b)
	f.offset += int64(n)
	return n, err
}

// Seek sets the offset of the next Read. If the offset changes, the next Read starts a new stream.
func (f *openFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrClosed}
	case whence == io.SeekCurrent:
		offset += f.offset
	case whence == io.SeekEnd:
		offset += f.info.Size()
	case whence != io.SeekStart:
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrInvalid}
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrInvalid}
	}
	if offset != f.offset {
		f.end()
		f.offset = offset
	}
	return offset, nil
}

func (f *openFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.closed = true
	f.end()
	return nil
}

// end stops the stream, if there is one.
func (f *openFile) end() {
	if f.stream != nil {
		f.stream.cancel()
		f.stream.Close()
		<-f.stream.done
		f.stream = nil
	}
}

// streamFrom starts to read a file at an offset.
func (f *FS) streamFrom(name string, offset int64) *fileStream {
	ctx, cancel := context.WithCancel(f.ctx)
	r, w := io.Pipe()
	s := &fileStream{r, cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		defer cancel()
		fsys := f.WithContext(ctx)
		w.CloseWithError(fsys.do("read", name, func(t *workspace.Tree, at string) error {
			return t.Read(ctx, at, offset, w)
		}))
	}()
	return s
}
