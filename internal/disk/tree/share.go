package tree

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/xattr"
)

// base is the folder whose files a copy shares.
type base struct {
	top      int               // -1: nothing is shared
	at       int               // the folder with the same path as the folder that is copied; -1: there is none
	isSource bool              // the folder is the source of the copy
	used     map[identity]bool // files that the copy has a link of
	buffers  [2][]byte
}

// share opens the folder base. If it can't be opened, nothing is shared.
func (c *copier) share(path, src string) *base {
	c.base = base{top: -1, at: -1, isSource: path == src}
	if path == "" || c.base.isSource {
		return &c.base
	}
	if top, err := openTop(path); err == nil {
		c.base.top, c.base.used = top, map[identity]bool{}
		c.base.buffers = [2][]byte{make([]byte, smallFile), make([]byte, smallFile)}
	}
	return &c.base
}

func (b *base) close() {
	if b.top >= 0 {
		unix.Close(b.top)
	}
}

// enter opens the folder at the path of a folder of the copy.
func (b *base) enter(folder *copyFolder) {
	if b.top < 0 {
		return
	}
	if at, err := descend(b.top, folder.names()); err == nil {
		b.at = at
	}
}

func (b *base) leave() {
	if b.at >= 0 {
		unix.Close(b.at)
		b.at = -1
	}
}

// linksSource reports whether a file of the source must be linked.
func (c *copier) linksSource(from *Folder, name string) (bool, error) {
	if c.base.isSource {
		if !c.allMarked {
			c.unmarked++
		}
		return true, nil
	}
	if !c.Marked || !c.works {
		return false, nil
	}
	if c.allMarked && c.base.top < 0 {
		return true, nil
	}
	st, err := from.Lstat(Entry{Name: name, Kind: unix.S_IFREG})
	if err != nil {
		return false, err
	}
	if !c.root && st.Uid != c.uid || !c.canLink(from.fd, name, &st) { // the process must own the copy
		c.unmarkable++
		return false, nil
	}
	if c.base.top >= 0 { // The file could also be the file of the base at another path.
		if c.base.used[identityOf(&st)] {
			return false, nil
		}
		c.base.used[identityOf(&st)] = true
	}
	return true, nil
}

// shareFrom creates a hard link of a file in an open folder. If the file system can't make the
// link, done is false. An example is a file that has too many links.
func (c *copier) shareFrom(from int, name string) (done bool, err error) {
	switch err := unix.Linkat(from, name, c.at.fd(), name, 0); err {
	case nil:
	case unix.EMLINK:
		return false, nil
	case unix.EPERM, unix.EXDEV, unix.EOPNOTSUPP, unix.ENOSYS:
		c.works = false
		return false, nil
	default:
		return false, changed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(c.at.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return true, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, errChanged
	}
	c.stats.Files++
	c.stats.Bytes += st.Size
	return true, nil
}

// sameInBase reports whether the base has a file of the same name that can be shared. src is the
// open file of the source, and st its state.
//
// Two files of the copy must not become links of each other. So each file of the base is shared
// once, and files with several links in the source are copied.
func (c *copier) sameInBase(src int, name string, st *unix.Stat_t) (bool, error) {
	if c.base.at < 0 || st.Nlink != 1 || st.Blocks*512 < st.Size { // reading a hole could take forever
		return false, nil
	}
	fd, err := openAt(c.base.at, name, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var other unix.Stat_t
	if err := unix.Fstat(fd, &other); err != nil {
		return false, err
	}
	if !c.root && other.Uid != c.uid { // the process must own the copy
		return false, nil
	}
	if other.Mode != st.Mode || other.Size != st.Size || other.Mtim != st.Mtim || other.Uid != st.Uid || other.Gid != st.Gid || c.base.used[identityOf(&other)] {
		return false, nil
	}
	same, err := c.sameAttributes(src, fd)
	if same && err == nil {
		same, err = c.sameContent(src, fd, st.Size)
	}
	if same && err == nil {
		c.base.used[identityOf(&other)] = true
	}
	return same, err
}

func (c *copier) sameContent(one, other int, size int64) (bool, error) {
	for at := int64(0); at < size; {
		if err := c.ctx.Err(); err != nil {
			return false, err
		}
		n, err := retry(func() (int, error) { return unix.Pread(one, c.base.buffers[0], at) })
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, errChanged
		}
		m, err := retry(func() (int, error) { return unix.Pread(other, c.base.buffers[1][:n], at) })
		if err != nil {
			return false, err
		}
		if !bytes.Equal(c.base.buffers[0][:n], c.base.buffers[1][:m]) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}

// sameAttributes compares the extended attributes of two files.
func (c *copier) sameAttributes(one, other int) (bool, error) {
	var all [2][]attribute
	for i, fd := range []int{one, other} {
		n, err := unix.Flistxattr(fd, c.names)
		if err == unix.EOPNOTSUPP {
			continue
		}
		if err != nil {
			return false, err
		}
		if n == 0 {
			continue
		}
		for name := range bytes.SplitSeq(bytes.TrimRight(c.names[:n], "\x00"), []byte{0}) {
			if string(name) == xattr.Shared {
				continue
			}
			value, err := unix.Fgetxattr(fd, string(name), c.buffer)
			if err != nil {
				return false, nil // attributes that can't be read count as different, so the file is copied
			}
			all[i] = append(all[i], attribute{string(name), string(c.buffer[:value])})
		}
	}
	return slices.Equal(all[0], all[1]), nil
}

// attribute is an extended attribute.
type attribute struct{ name, value string }
