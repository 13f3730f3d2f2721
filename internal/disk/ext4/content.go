package ext4

import (
	"bytes"
	"io"

	"golang.org/x/sys/unix"
)

// content reads the bytes of a file.
type content struct {
	fsys *FS
	file *inode
	read func(p []byte, offset int64) error
}

// content opens the content of a file. The file must be a regular file, a directory, or a symbolic
// link whose target is not stored in its inode.
func (fsys *FS) content(file *inode) (*io.SectionReader, error) {
	switch {
	case file.flags&flagInline != 0:
		return nil, unsupported("inline_data")
	case file.flags&flagEncrypted != 0:
		return nil, unsupported("encrypt")
	case file.size > 0 && file.flags&flagExtents == 0:
		return nil, unsupported("the block map of ext2")
	}
	read := fsys.read
	if file.mode&unix.S_IFMT != unix.S_IFREG {
		read = fsys.readMetadata
	}
	return io.NewSectionReader(content{fsys, file, read}, 0, file.size), nil
}

// ReadAt fills p. The SectionReader around c limits reads to the file's size. Holes read as zeros.
func (c content) ReadAt(p []byte, offset int64) (n int, err error) {
	size := c.fsys.blockSize
	for n < len(p) {
		block, within := (offset+int64(n))/size, (offset+int64(n))%size
		r, err := c.fsys.find(c.file, block)
		if err != nil {
			return n, err
		}
		part := p[n:][:min(r.count*size-within, int64(len(p)-n))]
		if r.start == 0 {
			clear(part)
		} else if err := c.read(part, r.start*size+within); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// maxTarget is Linux's limit for the length of a link target, in bytes, including the final NUL.
const maxTarget = 4096

// target returns the target of a symbolic link. Short targets are stored in the inode.
func (fsys *FS) target(link *inode) (string, error) {
	if link.size == 0 || link.size >= maxTarget {
		return "", corrupt("a symbolic link of %d bytes", link.size)
	}
	target := make([]byte, link.size)
	if int(link.size) < len(link.root) && link.flags&(flagExtents|flagInline|flagEncrypted) == 0 {
		copy(target, link.root[:])
	} else if content, err := fsys.content(link); err != nil {
		return "", err
	} else if _, err := io.ReadFull(content, target); err != nil {
		return "", err
	}
	if bytes.IndexByte(target, 0) >= 0 {
		return "", corrupt("a symbolic link with a zero byte")
	}
	return string(target), nil
}
