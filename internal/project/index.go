package project

import (
	"bytes"
	"encoding/binary"
	"path"
	"strings"
)

// Parts of an entry of an index, in bytes: https://git-scm.com/docs/index-format.
const (
	entryStat  = 40 // times, inode, mode, owner and size
	entryHash  = 20 // SHA-1; 32 in a repository of SHA-256, which is not read
	entryFlags = 2
)

// indexed gives the paths in git's index, of the versions 2 to 4, as far as it makes sense.
func indexed(index []byte) (all []string) {
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
			length += 8 - length%8 // zeros, at least one
		} else {
			length++
		}
		all, last = append(all, name), name
		rest = rest[min(length, len(rest)):]
	}
	return all
}

// entryName gives the path of an entry, and its length in the index. In version 4 a path begins as
// the last one did.
func entryName(text []byte, last string, version uint32) (name string, length int, ok bool) {
	kept := ""
	if version == 4 {
		drop, n, ok := dropped(text)
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

// dropped reads how many bytes of the last path do not count: a number as in packs with offsets.
func dropped(text []byte) (n uint64, length int, ok bool) {
	for i, b := range text[:min(len(text), 8)] {
		if n = n<<7 | uint64(b&0x7f); b&0x80 == 0 {
			return n, i + 1, true
		}
		n++
	}
	return 0, 0, false
}
