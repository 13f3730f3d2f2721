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
	Kind uint32 // file type bits of stat(2), such as unix.S_IFREG
}

// kinds maps the types of getdents(2) to file type bits.
var kinds = map[byte]uint32{
	unix.DT_REG: unix.S_IFREG, unix.DT_DIR: unix.S_IFDIR, unix.DT_LNK: unix.S_IFLNK, unix.DT_FIFO: unix.S_IFIFO,
	unix.DT_SOCK: unix.S_IFSOCK, unix.DT_CHR: unix.S_IFCHR, unix.DT_BLK: unix.S_IFBLK,
}

// list returns the entries of an open folder, in the byte order of their names. If the folder has
// more than limit entries, list stops early. The result then has more than limit entries, but not
// all.
func list(folder int, buffer []byte, limit int) ([]Entry, error) {
	if _, err := unix.Seek(folder, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var all []Entry
	for len(all) <= limit {
		n, err := retry(func() (int, error) { return unix.Getdents(folder, buffer) })
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
			var st unix.Stat_t // Some file systems report no type.
			if err := unix.Fstatat(folder, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
				continue // Another process has removed it.
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

var errListing = errors.New("the file system returned invalid folder entries")

// parse appends the entries in a buffer that getdents(2) filled. Each entry consists of:
//   - the inode number and an offset, 8 bytes each.
//   - the length of the entry, 2 bytes.
//   - the type, 1 byte.
//   - the name, terminated by a zero byte.
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
			if invalidName(n) {
				return nil, errListing
			}
			all = append(all, Entry{n, kinds[b[18]]})
		}
		b = b[length:]
	}
	return all, nil
}
