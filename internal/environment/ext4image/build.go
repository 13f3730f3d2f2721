// Package ext4image makes raw ext4 images from tar archives, without root, without mounting anything and without other programs.
//
// The archive is filtered entry by entry, since whoever made it is not trusted, and written as it comes (internal/disk/mkext4). Every image has the same
// virtual size and is sparse: what is not used takes no space on the host. The file system of a volume may be smaller than its image. The same archive gives the same image.
//
// There are two kinds: an environment, whose root folder is that of the archive, and a volume, which keeps what is in the archive below one folder, beside
// another one for what is only on its way there. Both have a journal. Images of environments that were made before there was one have none ([HasJournal]).
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

// VirtualSize is the size of every image, in bytes. It is the same for all so that a machine saved with one disk can be restored with another.
const VirtualSize = mkext4.Size

// The folders in the root of a volume.
const (
	VolumeFiles   = "files"   // what is seen in the machine
	VolumePending = "pending" // what is being prepared, and never shown; mode 0700
)

// made is when every image was made, so that the same content gives the same image. It is also when what an archive tells no time of was read and changed.
var made = time.Unix(1700000000, 0)

var (
	environment = mkext4.Identity{Label: "pyro-root", UUID: [16]byte([]byte("pyro\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00")), Made: made}
	volume      = mkext4.Identity{Label: "pyro-volume", UUID: [16]byte([]byte("pyro\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x02")), Made: made}
)

// Build reads an archive to its end and makes an environment's image of it at path, which must not exist, and flushes it to the disk. The errors are of these
// kinds: Corrupt for an archive that can't be made into a file system, Exhausted for one that is over its limits or fits no image, and for a full disk, and
// whatever in gives. A failed Build may leave a part of the image at path.
func Build(ctx context.Context, in io.Reader, path string, limits Limits) error {
	return build(ctx, path, environment, VirtualSize, func(w *mkext4.Writer) error { return unpack(ctx, w, ".", in, limits) })
}

// BuildVolume is Build for a volume: what is in the archive comes below VolumeFiles. An archive without entries gives a blank volume. Its file system has size bytes,
// within the bounds of mkext4.New.
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

// Fill makes an environment's image of what fill writes, as Build does of an archive.
func Fill(ctx context.Context, path string, fill func(*mkext4.Writer) error) error {
	return build(ctx, path, environment, VirtualSize, fill)
}

// FillVolume makes the image of a volume so: fill writes VolumeFiles and VolumePending, too.
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

// unpack adds what an archive holds below a folder.
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

// kinds are the kinds of entries that the filter lets through, but for hard links.
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

// HasJournal tells whether an image has a journal, from 4 bytes of it. One that has none was made before images had one, and its file system may be damaged
// when its last machine was killed.
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

// readerWith gives up at the first read after ctx is done.
func readerWith(ctx context.Context, in io.Reader) io.Reader { return contextReader{ctx, in} }

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
