package project

import (
	"bytes"
	"encoding/binary"
	"path"
	"strings"
)

// Sizes of the parts of an index entry, in bytes. See https://git-scm.com/docs/index-format.
const (
	entryStat  = 40 // times, inode, mode, owner and size
	entryHash  = 20 // SHA-1; repositories with SHA-256 are not supported
	entryFlags = 2
)

// indexPaths returns the paths in a git index of version 2 to 4. It stops at the first malformed
// entry.
func indexPaths(index []byte) (all []string) {
	if len(index) < 12 || string(index[:4]) != "DIRC" {
		return nil
	}
	version, count := binary.BigEndian.Uint32(index[4:]), binary.BigEndian.Uint32(index[8:])
	if version < 2 || version > 4 {
		return nil
	}
	rest, last := index[12:], ""
	for range count {
		head := entryStat + entryHash + entryFlags
		if len(rest) < head {
			return all
		}
		if extended := rest[head-entryFlags]&0x40 != 0; extended && version > 2 {
			head += 2
		}
		if len(rest) < head {
			return all
		}
		name, length, ok := entryName(rest[head:], last, version)
		if !ok {
			return all
		}
		if length += head; version < 4 {
			length += 8 - length%8 // at least one NUL of padding
		} else {
			length++
		}
		all, last = append(all, name), name
		rest = rest[min(length, len(rest)):]
	}
	return all
}

// entryName returns the path of an entry and its length in the index. In version 4, an entry omits
// the prefix that its path shares with the path of the previous entry (last).
func entryName(text []byte, last string, version uint32) (name string, length int, ok bool) {
	kept := ""
	if version == 4 {
		drop, n, ok := readOffset(text)
		if !ok || drop > uint64(len(last)) {
			return "", 0, false
		}
		kept, text, length = last[:uint64(len(last))-drop], text[n:], n
	}
	end := bytes.IndexByte(text, 0)
	if end < 0 || len(kept)+end > 4096 {
		return "", 0, false
	}
	name = kept + string(text[:end])
	return name, length + end, name != "" && path.Clean(name) == name && !strings.HasPrefix(name, "/")
}

// readOffset reads the number of bytes to remove from the end of the previous path. The encoding is
// the same as for offsets in pack files.
func readOffset(text []byte) (n uint64, length int, ok bool) {
	for i, b := range text[:min(len(text), 8)] {
		if n = n<<7 | uint64(b&0x7f); b&0x80 == 0 {
			return n, i + 1, true
		}
		n++
	}
	return 0, 0, false
}
