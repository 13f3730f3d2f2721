// Package ext4 reads ext4 images without mounting them. It provides the names, attributes and
// content of files as an fs.FS.
//
// Images are not trusted, because they can be the disks of guests. The package checks every number
// before it uses it. Its memory use grows with the data that it reads, not with the sizes that an
// image claims. Every call terminates. A malformed image causes only errors.
//
// Callers must still limit how much they read. A small image can contain sparse files of many
// terabytes, and directories that share blocks.
//
// Directories always form a tree, so a walk always ends. If a directory is reachable through
// another parent or a second name, the package lists that name but can't enter it. The package
// never follows symbolic links, and no path leaves the image.
//
// Names are the bytes on disk, which might be invalid UTF-8. Therefore paths are not checked with
// [fs.ValidPath]: every sequence of names with slashes between them is a valid path. The package
// skips an entry if its name is empty, "." or "..", or contains a slash or NUL. If several entries
// have the same name, it uses the first one.
//
// The package does not verify checksums of metadata. They detect only accidental damage, which
// e2fsck does better, and an attacker can compute them too. It does verify checksums of the
// journal, because they mark the end of the journal.
//
// The format is described in https://docs.kernel.org/filesystems/ext4/. For details that are
// missing there see fs/ext4 in Linux.
package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// FS is the file system in an image. It is safe for concurrent use. The image must not change while
// FS is in use.
//
// It implements [fs.ReadDirFS], [fs.StatFS] and [fs.ReadLinkFS]. All its errors are *fs.PathError.
// Their causes include:
//   - ErrCorrupt.
//   - ErrSymlink.
//   - [errors.ErrUnsupported], for unknown features.
//   - [fs.ErrNotExist].
//   - [fs.ErrInvalid].
//   - syscall.ENOTDIR.
type FS struct {
	image io.ReaderAt
	superblock
	replayed    replayed
	cache       cache
	directories directoryCache
}

var (
	// ErrCorrupt reports that an image is damaged or not an ext4 file system.
	ErrCorrupt = errors.New("damaged ext4 file system")
	// ErrSymlink reports that a path leads through a symbolic link. It also reports that a path
	// ends at a symbolic link although the operation needs another type of file.
	ErrSymlink = errors.New("symbolic links are not followed")
)

// Open reads the superblock of an image of size bytes. If the file system was not unmounted, Open
// also reads the journal. Later reads then return the state after recovery, but the image is not
// changed. Besides errors from reading the image, Open returns ErrCorrupt, or
// [errors.ErrUnsupported] for unknown features.
func Open(image io.ReaderAt, size int64) (*FS, error) {
	if size < superblockAt+superblockSize {
		return nil, corrupt("an image of %d bytes", size)
	}
	fsys := &FS{image: image}
	raw := make([]byte, superblockSize)
	if err := readFull(image, raw, superblockAt); err != nil {
		return nil, fmt.Errorf("read superblock: %w", err)
	}
	var err error
	if fsys.superblock, err = parseSuperblock(raw, size); err != nil || !fsys.dirty {
		return fsys, err
	}
	blocks, err := fsys.replay()
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	fsys.replayed, fsys.cache = blocks, cache{}
	if err := fsys.read(raw, superblockAt); err != nil {
		return nil, fmt.Errorf("read superblock: %w", err)
	}
	before := fsys.blockSize
	if fsys.superblock, err = parseSuperblock(raw, size); err == nil && fsys.blockSize != before {
		err = corrupt("the journal changes the block size")
	}
	return fsys, err
}

// OpenFile opens the file system in an image file. The caller must keep the file open while it uses
// the file system, and close it afterwards.
func OpenFile(image *os.File) (*FS, error) {
	info, err := image.Stat()
	if err != nil {
		return nil, err
	}
	return Open(image, info.Size())
}

// read fills p with the bytes that start at offset. It fails if they extend beyond the end of the
// file system.
func (fsys *FS) read(p []byte, offset int64) error {
	if end := fsys.blocks * fsys.blockSize; offset < 0 || offset > end-int64(len(p)) {
		return corrupt("%d bytes at %d are beyond the end", len(p), offset)
	}
	if len(fsys.replayed) == 0 {
		return readFull(fsys.image, p, offset)
	}
	for len(p) > 0 {
		// Read everything before the next journaled block with one call.
		n := int64(0)
		for n < int64(len(p)) {
			if _, moved := fsys.replayed[(offset+n)/fsys.blockSize]; moved {
				break
			}
			n = min(int64(len(p)), n+fsys.blockSize-(offset+n)%fsys.blockSize)
		}
		if err := readFull(fsys.image, p[:n], offset); err != nil {
			return err
		}
		p, offset = p[n:], offset+n
		if len(p) == 0 {
			break
		}
		n = min(int64(len(p)), fsys.blockSize-offset%fsys.blockSize)
		if err := fsys.readLogged(p[:n], offset); err != nil {
			return err
		}
		p, offset = p[n:], offset+n
	}
	return nil
}

// readLogged fills p from a single block whose latest content is in the journal.
func (fsys *FS) readLogged(p []byte, offset int64) error {
	block, within := fsys.replayed[offset/fsys.blockSize], offset%fsys.blockSize
	if err := readFull(fsys.image, p, block.at*fsys.blockSize+within); err != nil {
		return err
	}
	if block.escaped && within < 4 {
		copy(p, binary.BigEndian.AppendUint32(nil, journalMagic)[within:])
	}
	return nil
}

// readMetadata reads metadata through the cache. File content bypasses the cache.
func (fsys *FS) readMetadata(p []byte, offset int64) error {
	end := fsys.blocks * fsys.blockSize
	if offset < 0 || offset > end-int64(len(p)) {
		return corrupt("%d bytes at %d are beyond the end", len(p), offset)
	}
	return fsys.cache.read(p, offset, end, fsys.read)
}

func readFull(image io.ReaderAt, p []byte, offset int64) error {
	n, err := image.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func unsupported(what string) error {
	return fmt.Errorf("%s: %w", what, errors.ErrUnsupported)
}
