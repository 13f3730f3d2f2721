// Package erofs writes file trees as EROFS images. EROFS is a read-only file system, and its images
// can be mapped into memory.
//
// The package uses a small part of the format: blocks of 4 KiB and inodes of 64 bytes. The format
// is described in Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h in Linux. The content
// of each file, directory and symbolic link has its own blocks. This content is never compressed or
// stored inline with the inodes, because then it could not be mapped. gVisor reads this subset
// (gvisor.dev/gvisor/pkg/erofs). The package does not write extended attributes.
//
// An image consists of the following parts, in this order:
//  1. A block with the superblock.
//  2. The inodes.
//  3. The content of directories and symbolic links.
//  4. The content of regular files.
package erofs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	blockSize = 4096
	inodeSize = 64
	// A node number is the offset of the inode in units of 32 bytes.
	slotsPerInode = inodeSize / 32
)

// Limits for a tree.
const (
	MaxNodes = 4 << 20
	maxName  = 255
	maxLink  = blockSize - 1
	maxDepth = 4096
)

// ErrTooLarge reports that a tree exceeds the limits of this package.
var ErrTooLarge = errors.New("the tree is too large for an image")

// Write writes a tree to an empty file. Equal trees give equal images. If the Sys method of a file
// returns a *syscall.Stat_t, Write reads the owner, device number and inode number from it. Files
// with equal inode numbers become hard links.
func Write(out *os.File, tree fs.FS) error {
	t, err := scan(tree)
	if err != nil {
		return err
	}
	total := t.layout()
	if total > 1<<32-1 {
		return ErrTooLarge
	}
	if err := out.Truncate(total * blockSize); err != nil {
		return err
	}
	w := &writer{out: out, tree: tree, blocks: total}
	if err := w.superblock(t); err != nil {
		return err
	}
	for _, n := range t.nodes {
		if err := w.node(n); err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	return nil
}

// blocks returns the number of blocks for size bytes.
func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize }
