package tree

import (
	"bytes"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// base is the folder whose files a copy shares.
type base struct {
	top      int  // -1: nothing is shared
	isSource bool // the folder is the source of the copy

	mu   sync.Mutex
	used map[identity]bool // files that the copy has a link of
}

// open opens the folder at path. If it can't be opened, nothing is shared.
func (b *base) open(path, src string) {
	b.top, b.isSource, b.used = -1, path == src, map[identity]bool{}
	if path == "" || b.isSource {
		return
	}
	if top, err := openTop(path); err == nil {
		b.top = top
	}
}

func (b *base) close() {
	if b.top >= 0 {
		unix.Close(b.top)
	}
}

// use records that the copy has a link of a file. It returns false if the copy already had one.
func (b *base) use(id identity) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[id] {
		return false
	}
	b.used[id] = true
	return true
}

// at opens the folder of the base at the path of a folder of the copy. It returns -1 if there is no
// such folder.
func (b *base) at(folder *copyFolder) int {
	if b.top < 0 {
		return -1
	}
	at, err := descend(b.top, folder.names())
	if err != nil {
		return -1
	}
	return at
}

// linksFrom returns the open folder with the file that must be linked: the folder of the source or
// of the base. It returns -1 if the file must be copied. If another process can change the folder,
// it also returns the identity of the file, and the file must have a mark.
func (f *folderCopy) linksFrom(e Entry) (folder int, file identity, err error) {
	if f.base.isSource {
		if !f.allMarked {
			f.unmarked++
		}
		return f.from.fd, file, nil
	}
	if !f.sharing.Marked || f.noMarks.Load() {
		return -1, file, nil
	}
	if f.allMarked && f.base.top < 0 {
		return f.from.fd, file, nil
	}
	st, err := f.from.Lstat(e)
	if err != nil {
		return -1, file, err
	}
	folder, found := f.from.fd, identityOf(&st)
	switch {
	case !f.root && st.Uid != f.uid: // the process must own the copy
		f.unmarkable++
		return -1, file, nil
	case f.isInBase(e.Name, &st):
		folder = f.baseAt
	default:
		can, err := f.canLink(e.Name, &st)
		if err != nil {
			return -1, file, err
		}
		if !can {
			f.unmarkable++
			return -1, file, nil
		}
		if !f.sharing.Constant {
			file = found
		}
	}
	// The file could also be the file of the base at another path.
	if f.base.top >= 0 && !f.base.use(found) {
		return -1, file, nil
	}
	return folder, file, nil
}

// isInBase reports whether a file of the source is a link of the file at the same path in the base.
// st is its state. Such a file has a mark, because only marked files have links in several trees.
func (f *folderCopy) isInBase(name string, st *unix.Stat_t) bool {
	if f.baseAt < 0 {
		return false
	}
	var other unix.Stat_t
	err := unix.Fstatat(f.baseAt, name, &other, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && identityOf(&other) == identityOf(st)
}

// shareFrom creates a hard link of a file in the open folder from. If the file system can't make
// the link, done is false. An example is a file that has too many links. If file is not empty, and
// another process has replaced it by another or an unmarked file, shareFrom returns an error.
func (f *folderCopy) shareFrom(from int, name string, file identity) (done bool, err error) {
	switch err := unix.Linkat(from, name, f.to, name, 0); err {
	case nil:
	case unix.EMLINK:
		return false, nil
	case unix.EPERM, unix.EXDEV, unix.EOPNOTSUPP, unix.ENOSYS:
		f.noMarks.Store(true)
		return false, nil
	default:
		return false, changed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(f.to, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return true, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, errChanged
	}
	// The machine cannot reach the new name. So nothing can replace the file any more.
	if file != (identity{}) && (file != identityOf(&st) || !isMarkedIn(f.to, name)) {
		return true, errChanged
	}
	f.stats.Files++
	f.stats.Bytes += st.Size
	return true, nil
}

// sameInBase reports whether the base has a file of the same name that can be shared. src is the
// open file of the source, and st its state.
//
// Two files of the copy must not become links of each other. So each file of the base is shared
// once, and files with several links in the source are copied.
func (f *folderCopy) sameInBase(src int, name string, st *unix.Stat_t) (bool, error) {
	if f.baseAt < 0 || st.Nlink != 1 || st.Blocks*512 < st.Size { // reading a hole could take forever
		return false, nil
	}
	fd, err := openAt(f.baseAt, name, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var other unix.Stat_t
	if err := unix.Fstat(fd, &other); err != nil {
		return false, err
	}
	if !f.root && other.Uid != f.uid { // the process must own the copy
		return false, nil
	}
	if other.Mode != st.Mode || other.Size != st.Size || other.Mtim != st.Mtim || other.Uid != st.Uid || other.Gid != st.Gid {
		return false, nil
	}
	same, err := f.sameAttributes(src, fd)
	if same && err == nil {
		same, err = f.sameContent(src, fd, st.Size)
	}
	return same && err == nil && f.base.use(identityOf(&other)), err
}

func (f *folderCopy) sameContent(one, other int, size int64) (bool, error) {
	if f.compared[0] == nil {
		f.compared = [2][]byte{make([]byte, smallFile), make([]byte, smallFile)}
	}
	for at := int64(0); at < size; {
		if err := f.stopped(); err != nil {
			return false, err
		}
		n, err := retry(func() (int, error) { return unix.Pread(one, f.compared[0], at) })
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, errChanged
		}
		m, err := retry(func() (int, error) { return unix.Pread(other, f.compared[1][:n], at) })
		if err != nil {
			return false, err
		}
		if !bytes.Equal(f.compared[0][:n], f.compared[1][:m]) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}

// sameAttributes compares the extended attributes of two files.
func (f *folderCopy) sameAttributes(one, other int) (bool, error) {
	var all [2][]attribute
	for i, fd := range []int{one, other} {
		n, err := unix.Flistxattr(fd, f.names)
		if err == unix.EOPNOTSUPP {
			continue
		}
		if err != nil {
			return false, err
		}
		if n == 0 {
			continue
		}
		for name := range bytes.SplitSeq(bytes.TrimRight(f.names[:n], "\x00"), []byte{0}) {
			if string(name) == xattr.Shared || string(name) == xattr.SeveralNames {
				continue
			}
			value, err := unix.Fgetxattr(fd, string(name), f.buffer)
			if err != nil {
				return false, nil // attributes that can't be read count as different, so the file is copied
			}
			all[i] = append(all[i], attribute{string(name), string(f.buffer[:value])})
		}
	}
	return slices.Equal(all[0], all[1]), nil
}

// attribute is an extended attribute.
type attribute struct{ name, value string }
