// Package erofs writes file trees as EROFS images: read-only file systems that can be mapped into memory as they are.
//
// Of the format (Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h of Linux) it uses the least: blocks of 4 KiB, inodes of 64 bytes, and the content of
// every file, folder and symbolic link in blocks of its own, neither compressed nor among the inodes, where it could not be mapped. gVisor reads just
// that (gvisor.dev/gvisor/pkg/erofs). Extended attributes are left out.
//
// An image is, in this order: a block with the superblock, the inodes, the folders and links, and the files.
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
	// A node is named by its inode's place, counted in slots of 32 bytes.
	slotsPerInode = inodeSize / 32
)

// Bounds of what is written.
const (
	MaxNodes = 4 << 20
	maxName  = 255
	maxLink  = blockSize - 1
	maxDepth = 4096
)

// ErrTooLarge says that a tree does not fit the bounds of this package.
var ErrTooLarge = errors.New("the tree is too large for an image")

// Write writes a tree to an empty file. The same tree gives the same image. What a [fs.FileInfo] has no method for is taken from its Sys, where that is a
// *syscall.Stat_t: the owner, the device, and the inode's number, by which hard links are told.
func Write(out *os.File, tree fs.FS) error {
	t, err := scan(tree)
	if err != nil {
		return err
	}
	total := t.place()
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

// blocks is how many blocks hold size bytes.
func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize }
