package view

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Export writes a view as one sparse raw ext4 image. The files of the volume become ordinary files
// in the image. Export preserves owners, modes, times, hard links, extended attributes, devices and
// holes.
//
// Export replaces the file at path only after the image is complete and flushed. On errors, and if
// ctx is cancelled, the file at path stays unchanged. Errors contain path. If the content does not
// fit into an image, they have kind Exhausted.
func Export(ctx context.Context, v *FS, path string) error {
	return fault.Wrap(export(ctx, v, path), "export disk to", path)
}

func export(ctx context.Context, v *FS, path string) error {
	replacement := durable.Replacement{Temp: "." + filepath.Base(path) + "-*", Check: ctx.Err, Unflushed: true}
	err := replacement.WriteFunc(path, func(out *os.File) error {
		id := mkext4.Identity{Label: "pyro-disk", Made: time.Now()}
		rand.Read(id.UUID[:])
		id.UUID[6], id.UUID[8] = id.UUID[6]&0x0f|0x40, id.UUID[8]&0x3f|0x80 // version 4: random
		w, err := mkext4.New(out, id, mkext4.Size)
		if err != nil {
			return err
		}
		if err := Copy(ctx, v, w); err != nil {
			return err
		}
		if err := w.Finish(); err != nil {
			return err
		}
		return out.Sync()
	})
	if err == nil {
		_ = durable.Sync(filepath.Dir(path)) // The image is complete. Only its name might not be flushed.
	}
	return err
}

// Copy writes a whole tree to an image. It preserves the same attributes as Export.
func Copy(ctx context.Context, from Tree, to *mkext4.Writer) error {
	e := exporter{ctx, from, to, map[fileID]string{}}
	return e.folder(".")
}

// fileID identifies a file independently of its names.
type fileID struct{ device, inode uint64 }

type exporter struct {
	ctx   context.Context
	view  Tree
	out   *mkext4.Writer
	links map[fileID]string // the first name of each file with several hard links
}

// folder writes a directory and everything below it.
func (e *exporter) folder(name string) error {
	stat, err := e.view.Lstat(name)
	if err != nil {
		return err
	}
	if err := e.add(name, stat); err != nil {
		return err
	}
	entries, err := e.view.ReadDir(name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		inside := entry.Name()
		if name != "." {
			inside = name + "/" + inside
		}
		if entry.IsDir() {
			if err := e.folder(inside); err != nil {
				return err
			}
			continue
		}
		stat, err := entry.Info()
		if err != nil {
			return pathError("export", inside, err)
		}
		if err := e.add(inside, stat); err != nil {
			return err
		}
	}
	return nil
}

// add writes a single file of any type.
func (e *exporter) add(name string, stat fs.FileInfo) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	st, ok := stat.Sys().(*syscall.Stat_t)
	if !ok {
		return &fs.PathError{Op: "export", Path: name, Err: errors.ErrUnsupported}
	}
	if id := (fileID{st.Dev, st.Ino}); st.Nlink > 1 && !stat.IsDir() {
		if first, written := e.links[id]; written {
			return e.out.Link(name, first)
		}
		e.links[id] = name
	}
	attributes, err := e.view.Xattrs(name)
	if err != nil {
		return err
	}
	entry := mkext4.Entry{
		Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: stat.Size(), Device: st.Rdev, Xattrs: attributes,
		Accessed: time.Unix(st.Atim.Unix()), Modified: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		if entry.Target, err = e.view.ReadLink(name); err != nil {
			return err
		}
	case unix.S_IFREG:
		f, err := e.view.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return e.out.Add(name, entry, e.content(f))
	}
	return e.out.Add(name, entry, nil)
}

// content returns the content of a file. Reads fail after the context is cancelled.
func (e *exporter) content(f fs.File) io.Reader {
	whole := content{e.ctx, f}
	if s, ok := f.(mkext4.Sparse); ok {
		return sparseContent{whole, s}
	}
	return whole
}

type content struct {
	ctx context.Context
	fs.File
}

func (c content) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.File.Read(p)
}

type sparseContent struct {
	content
	sparse mkext4.Sparse
}

func (c sparseContent) ReadAt(p []byte, offset int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.sparse.ReadAt(p, offset)
}

func (c sparseContent) NextData(offset int64) (start, end int64, err error) {
	return c.sparse.NextData(offset)
}
