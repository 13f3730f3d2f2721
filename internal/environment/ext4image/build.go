// Package ext4image builds raw ext4 images from tar archives. It needs neither root nor mounts nor
// other programs.
//
// Archives are not trusted. The package filters their entries, and writes the entries with package
// mkext4. All images have the same virtual size and are sparse. The file system of a volume can be
// smaller than its image. Equal archives give equal images.
//
// In an environment image, the root directory has the content of the archive's root. In a volume
// image, one directory has the content of the archive, and a second directory is for pending
// changes. Both kinds of image have a journal. However, environment images of early versions lack a
// journal, see [HasJournal].
package ext4image

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
)

// VirtualSize is the size of every image in bytes. Because all images have this size, a machine
// that was saved with one disk can be restored with another disk.
const VirtualSize = mkext4.Size

// Directories in the root directory of a volume.
const (
	VolumeFiles   = "files"   // files that the machine sees
	VolumePending = "pending" // pending changes, which the machine never sees; mode 0700
)

// made is the creation time of all images, and the access and change time of their files. It is
// constant, so that equal content gives equal images.
var made = time.Unix(1700000000, 0)

var (
	environment = mkext4.Identity{Label: "pyro-root", UUID: [16]byte([]byte("pyro\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00")), Made: made}
	volume      = mkext4.Identity{Label: "pyro-volume", UUID: [16]byte([]byte("pyro\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x02")), Made: made}
)

// Build reads an archive and writes an environment image to path, which must not exist. It flushes
// the image to disk. If the archive is invalid, the error has kind Corrupt. If the archive exceeds
// the limits or the disk is full, the error has kind Exhausted. Build also returns errors from in.
// After an error, a partial image can remain at path.
func Build(ctx context.Context, in io.Reader, path string, limits Limits) error {
	return build(ctx, path, environment, VirtualSize, func(w *mkext4.Writer) error { return unpack(ctx, w, ".", in, limits) })
}

// BuildVolume is like Build, but writes a volume image. The content of the archive goes to
// VolumeFiles. For an archive without entries, the volume is empty. The file system has size bytes.
// For the allowed sizes see mkext4.New.
func BuildVolume(ctx context.Context, in io.Reader, path string, limits Limits, size int64) error {
	return build(ctx, path, volume, size, func(w *mkext4.Writer) error {
		folder := mkext4.Entry{Mode: unix.S_IFDIR | 0o755, Accessed: made, Modified: made, Changed: made}
		if err := w.Add(VolumeFiles, folder, nil); err != nil {
			return err
		}
		folder.Mode = unix.S_IFDIR | 0o700
		if err := w.Add(VolumePending, folder, nil); err != nil {
			return err
		}
		return unpack(ctx, w, VolumeFiles, in, limits)
	})
}

// Fill is like Build, but the function fill writes the content.
func Fill(ctx context.Context, path string, fill func(*mkext4.Writer) error) error {
	return build(ctx, path, environment, VirtualSize, fill)
}

// FillVolume is like BuildVolume, but the function fill writes the content. The function must also
// create VolumeFiles and VolumePending.
func FillVolume(ctx context.Context, path string, size int64, fill func(*mkext4.Writer) error) error {
	return build(ctx, path, volume, size, fill)
}

func build(ctx context.Context, path string, id mkext4.Identity, size int64, fill func(*mkext4.Writer) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w, err := mkext4.New(file, id, size)
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Finish(); err != nil {
		return err
	}
	return file.Sync()
}

// unpack adds the content of an archive to the directory below.
func unpack(ctx context.Context, w *mkext4.Writer, below string, in io.Reader, limits Limits) error {
	inside := func(name string) string {
		switch {
		case below == ".":
			return name
		case name == ".":
			return below
		}
		return below + "/" + name
	}
	return filter(readerWith(ctx, in), limits, func(header *tar.Header, content io.Reader) error {
		if header.Typeflag == tar.TypeLink {
			return w.Link(inside(header.Name), inside(header.Linkname))
		}
		return w.Add(inside(header.Name), entry(header), content)
	})
}

// kinds maps the allowed types of entries, except hard links, to the file type bits of a mode.
var kinds = map[byte]uint32{
	tar.TypeReg: unix.S_IFREG, tar.TypeDir: unix.S_IFDIR, tar.TypeSymlink: unix.S_IFLNK, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK,
	tar.TypeFifo: unix.S_IFIFO,
}

func entry(h *tar.Header) mkext4.Entry {
	e := mkext4.Entry{
		Mode: kinds[h.Typeflag] | uint32(h.Mode)&0o7777, UID: uint32(h.Uid), GID: uint32(h.Gid), Accessed: made, Modified: h.ModTime, Changed: made,
		Size: h.Size, Target: h.Linkname, Device: unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)), Xattrs: map[string]string{},
	}
	if h.Typeflag == tar.TypeSymlink {
		e.Mode |= 0o777
	}
	for key, value := range h.PAXRecords {
		e.Xattrs[strings.TrimPrefix(key, xattrPrefix)] = value
	}
	return e
}

// HasJournal reports whether an image has a journal. It reads only 4 bytes. Images of early
// versions have no journal, so killing a machine might have damaged their file system.
func HasJournal(path string) (bool, error) {
	const features, hasJournal = 1024 + 0x5c, 0x4
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	var b [4]byte
	if _, err := file.ReadAt(b[:], features); err != nil {
		return false, err
	}
	return binary.LittleEndian.Uint32(b[:])&hasJournal != 0, nil
}

type contextReader struct {
	ctx context.Context
	in  io.Reader
}

// readerWith returns a reader that fails after ctx is cancelled.
func readerWith(ctx context.Context, in io.Reader) io.Reader { return contextReader{ctx, in} }

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
