package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Entry is a name in a folder.
type Entry struct {
	Name string
	Kind uint32 // as in the mode that stat(2) gives: unix.S_IFREG and its like
}

// kinds are the kinds of entries that getdents(2) tells.
var kinds = map[byte]uint32{
	unix.DT_REG: unix.S_IFREG, unix.DT_DIR: unix.S_IFDIR, unix.DT_LNK: unix.S_IFLNK, unix.DT_FIFO: unix.S_IFIFO,
	unix.DT_SOCK: unix.S_IFSOCK, unix.DT_CHR: unix.S_IFCHR, unix.DT_BLK: unix.S_IFBLK,
}

// list gives what is in an open folder, in the order of the names' bytes, or where that is more than it may be told, some of it.
func list(folder int, buffer []byte, most int) ([]Entry, error) {
	if _, err := unix.Seek(folder, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var all []Entry
	for len(all) <= most {
		n, err := again(func() (int, error) { return unix.Getdents(folder, buffer) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if all, err = parse(buffer[:n], all); err != nil {
			return nil, err
		}
	}
	known := all[:0]
	for _, e := range all {
		if e.Kind == 0 {
			var st unix.Stat_t // some file systems don't tell kinds
			if err := unix.Fstatat(folder, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
				continue // it was removed since
			} else if err != nil {
				return nil, err
			}
			e.Kind = st.Mode & unix.S_IFMT
		}
		known = append(known, e)
	}
	all = known
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

var errListing = errors.New("the file system gave a folder's entries in no known form")

// parse adds what getdents(2) gave: for each entry an inode and an offset of 8 bytes, its length in 2, its kind in one, and its name up to a zero.
func parse(b []byte, all []Entry) ([]Entry, error) {
	const head = 8 + 8 + 2 + 1
	for len(b) > 0 {
		if len(b) < head {
			return nil, errListing
		}
		length := int(binary.NativeEndian.Uint16(b[16:]))
		if length < head || length > len(b) {
			return nil, errListing
		}
		name, _, _ := bytes.Cut(b[head:length], []byte{0})
		if n := string(name); n != "." && n != ".." {
			if badName(n) {
				return nil, errListing
			}
			all = append(all, Entry{n, kinds[b[18]]})
		}
		b = b[length:]
	}
	return all, nil
}
