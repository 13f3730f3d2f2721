package erofs

import (
	"encoding/binary"
	"io/fs"
)

// A folder's content is blocks that each have a table of entries and, after it, their names. The length of the table is told by where the first name
// begins. Names are in the order of their bytes, "." and ".." among them.
const entrySize = 12

// fitting is how many entries fit the next block, and how many bytes they take.
func fitting(entries []entry) (n, size int) {
	for _, e := range entries {
		if size+entrySize+len(e.name) > blockSize {
			break
		}
		size += entrySize + len(e.name)
		n++
	}
	return n, size
}

// foldersSize is the size of a folder's content: whole blocks, and what the last one needs.
func foldersSize(entries []entry) (total int64) {
	for len(entries) > 0 {
		n, size := fitting(entries)
		if entries = entries[n:]; len(entries) > 0 {
			size = blockSize
		}
		total += int64(size)
	}
	return total
}

// folder gives the content of a folder.
func folder(entries []entry) []byte {
	var all []byte
	for len(entries) > 0 {
		n, size := fitting(entries)
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

// kind is an entry's note of what it names.
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
