// Package ext4 reads ext4 images without mounting them: the names, attributes and content of files, as an fs.FS.
//
// Whoever wrote an image is not trusted, since it may be the disk of a guest. Every number in it is checked before it is used, memory is taken by what is
// read and not by what is claimed, and every call ends. An image that makes no sense gives errors, never more than that. What a caller still has to bound is
// how much it asks for: a small image can hold files of many terabytes that are all hole, and directories that share the blocks of one list of names.
//
// Directories form a tree whatever the image says: one that is reached by another way than from its own parent, or by a second name, is shown and can't be
// entered. So walking a tree comes to an end. Symbolic links are never followed, and no path leads out of the image.
//
// Names are bytes, as they are on the disk. They need not be UTF-8, so [fs.ValidPath] does not decide what a path is: every sequence of names, with slashes
// between them, is one. Entries whose name no path can hold, being empty, ".", "..", or having a slash or a zero byte in it, are left out, and of several
// entries of one name the first counts.
//
// Checksums are not verified: they find accidents, which e2fsck does better, and whoever writes bad metadata can sign it as well. Those of the journal are,
// since they tell where it ends.
//
// The facts are those of https://docs.kernel.org/filesystems/ext4/, and where that is silent those of fs/ext4 in Linux.
package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// FS is a file system in an image. It is safe for use by several goroutines. The image must not change while it is in use.
//
// It is an [fs.ReadDirFS], [fs.StatFS] and [fs.ReadLinkFS]. Its errors are of type *fs.PathError, and [errors.Is] tells ErrCorrupt, [errors.ErrUnsupported]
// for what this package does not read, ErrSymlink, [fs.ErrNotExist], [fs.ErrInvalid] and syscall.ENOTDIR apart.
type FS struct {
	image io.ReaderAt
	superblock
	replayed replayed
	cache    cache
	shelf    shelf
}

var (
	// ErrCorrupt says that the image is no ext4 file system or a damaged one.
	ErrCorrupt = errors.New("damaged ext4 file system")
	// ErrSymlink says that a path has a symbolic link in it, or leads to one where something else was asked for.
	ErrSymlink = errors.New("symbolic links are not followed")
)

// Open reads the superblock of an image of the given size in bytes. Where the file system was not unmounted its journal is read too, and what is read later is
// what it would be after a recovery; nothing is written. Beside the errors of the image it gives ErrCorrupt, and [errors.ErrUnsupported] for a file system
// or a journal with features that this package does not know.
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
		err = corrupt("its journal changes the size of blocks")
	}
	return fsys, err
}

// OpenFile is Open of a whole file, which stays the caller's and must stay open.
func OpenFile(image *os.File) (*FS, error) {
	info, err := image.Stat()
	if err != nil {
		return nil, err
	}
	return Open(image, info.Size())
}

// read fills p from an offset in bytes, which must be within the file system.
func (fsys *FS) read(p []byte, offset int64) error {
	if end := fsys.blocks * fsys.blockSize; offset < 0 || offset > end-int64(len(p)) {
		return corrupt("%d bytes at %d are beyond its end", len(p), offset)
	}
	if len(fsys.replayed) == 0 {
		return readFull(fsys.image, p, offset)
	}
	for len(p) > 0 {
		// What is in its place up to the first block that is in the journal is read at once.
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

// readLogged fills p from a block that is in the journal.
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

// readNear is read of what is found near to other such things: all but the content of files.
func (fsys *FS) readNear(p []byte, offset int64) error {
	end := fsys.blocks * fsys.blockSize
	if offset < 0 || offset > end-int64(len(p)) {
		return corrupt("%d bytes at %d are beyond its end", len(p), offset)
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
	return fmt.Errorf("it uses %s: %w", what, errors.ErrUnsupported)
}
