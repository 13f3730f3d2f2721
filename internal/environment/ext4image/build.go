// Package ext4image makes raw ext4 images from tar archives, without root and without mounting anything.
//
// The archive is filtered entry by entry, since whoever made it is not trusted, and written as a compact image by tar2ext4; e2fsprogs then turn that into
// a file system that can be written and grow it. Every image has the same virtual size and is sparse: what is not used takes no space on the host.
// Images have no journal: they are only ever the lower layer of a root that is thrown away.
package ext4image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Microsoft/hcsshim/ext4/tar2ext4"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// VirtualSize is the size of every image, in bytes. It is the same for all so that a machine saved with one disk can be restored with another.
const VirtualSize = 16 << 30

const blockSize = 4096

// compactSize bounds the compact image, inode table and directories included, beneath VirtualSize.
const compactSize = 15 << 30

// Build reads an archive to its end and makes an image of it at path, which must not exist. The errors are of these kinds: Corrupt for an archive that
// can't be made into a file system, Exhausted for one that is over its limits and for a full disk, Unavailable where e2fsprogs are missing, and whatever
// in gives. A failed Build may leave a part of the image at path.
func Build(ctx context.Context, in io.Reader, path string, limits Limits) error {
	if err := checkTools(); err != nil {
		return err
	}
	padding, err := convert(ctx, in, path, limits)
	if err != nil {
		return err
	}
	return tune(ctx, path, padding)
}

func convert(ctx context.Context, in io.Reader, path string, limits Limits) (padding int, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	filtered, feed := io.Pipe()
	type result struct {
		padding int
		err     error
	}
	done := make(chan result, 1)
	go func() {
		out := tar.NewWriter(feed)
		bytes, entries, err := filter(readerWith(ctx, in), out, limits)
		padding := paddingFor(bytes, entries)
		if err == nil {
			err = writePadding(out, padding)
		}
		if err == nil {
			err = out.Close()
		}
		feed.CloseWithError(err) // nil is the end of the archive
		done <- result{padding, err}
	}()

	sparse := &sparseFile{File: file}
	writeErr := writeCompact(filtered, sparse)
	filtered.CloseWithError(errStopped)
	read := <-done
	switch {
	case read.err != nil && !errors.Is(read.err, errStopped):
		return 0, read.err
	case writeErr != nil:
		return 0, writeErr
	}
	return read.padding, sparse.finish()
}

var errStopped = errors.New("the image could not be written")

// writeCompact gives errors of the disk as they are and all else, the library's panics among it, as Corrupt: the filter has let nothing through that is
// wrong on its own, so it is the archive as a whole that makes no sense, such as a file in a folder that is a file.
func writeCompact(in io.Reader, out io.ReadWriteSeeker) (err error) {
	disk := &diskErrors{ReadWriteSeeker: out}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if disk.err != nil {
			err = disk.err
		} else if err != nil {
			err = &fault.Error{Op: "make file system", Kind: fault.Corrupt, Err: err}
		}
	}()
	if err := tar2ext4.ConvertTarToExt4(in, disk, tar2ext4.MaximumDiskSize(compactSize)); err != nil {
		return err
	}
	return nil
}

// diskErrors remembers the first failed write, which the library may wrap or hide.
type diskErrors struct {
	io.ReadWriteSeeker
	err error
}

func (d *diskErrors) Write(p []byte) (int, error) {
	n, err := d.ReadWriteSeeker.Write(p)
	if err != nil && d.err == nil {
		d.err = err
	}
	return n, err
}

type contextReader struct {
	ctx context.Context
	in  io.Reader
}

// readerWith gives up at the first read after ctx is done.
func readerWith(ctx context.Context, in io.Reader) io.Reader { return contextReader{ctx, in} }

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
