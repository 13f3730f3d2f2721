package erofs

import (
	"encoding/binary"
	"io/fs"
)

// A directory consists of blocks. Each block begins with a table of entries, and their names
// follow. The offset of the first name gives the length of the table. Names, including "." and
// "..", are sorted by their bytes.
const entrySize = 12

// entriesInBlock returns the number n of entries that fit into the next block, and the size in
// bytes of these entries with their names.
func entriesInBlock(entries []entry) (n, size int) {
	for _, e := range entries {
		if size+entrySize+len(e.name) > blockSize {
			break
		}
		size += entrySize + len(e.name)
		n++
	}
	return n, size
}

// directorySize returns the size of a directory's content in bytes. All blocks but the last count
// in full. The last block counts with its used bytes.
func directorySize(entries []entry) (total int64) {
	for len(entries) > 0 {
		n, size := entriesInBlock(entries)
		if entries = entries[n:]; len(entries) > 0 {
			size = blockSize
		}
		total += int64(size)
	}
	return total
}

// folder encodes the content of a directory.
func folder(entries []entry) []byte {
	var all []byte
	for len(entries) > 0 {
		n, size := entriesInBlock(entries)
		block := make([]byte, size, blockSize)
		name := n * entrySize
		for i, e := range entries[:n] {
			at := block[i*entrySize:]
			binary.LittleEndian.PutUint64(at, e.node.id)
			binary.LittleEndian.PutUint16(at[8:], uint16(name))
			at[10] = kind(e.node.info.Mode())
			name += copy(block[name:], e.name)
		}
		if entries = entries[n:]; len(entries) > 0 {
			block = block[:blockSize]
		}
		all = append(all, block...)
	}
	return all
}

// kind returns the file type code of a directory entry.
func kind(m fs.FileMode) byte {
	switch m.Type() {
	case fs.ModeDir:
		return 2
	case fs.ModeDevice | fs.ModeCharDevice:
		return 3
	case fs.ModeDevice:
		return 4
	case fs.ModeNamedPipe:
		return 5
	case fs.ModeSocket:
		return 6
	case fs.ModeSymlink:
		return 7
	}
	return 1
}
