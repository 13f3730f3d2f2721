package volume

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// Owner is a user and a group, by their numbers.
type Owner struct{ UID, GID int }

// Unpacked counts the entries and bytes that Unpack has written.
type Unpacked struct {
	Files    int64
	Folders  int64 // new ones
	Links    int64 // symbolic and hard links.
	Replaced int64 // files and links that replaced others.
	Bytes    int64 // of content
	Skipped  int64 // devices and pipes
	Lost     int64 // owners and extended attributes that the file system rejects
}

// unpacker unpacks a tar archive below a directory.
type unpacker struct {
	ctx     context.Context
	root    int
	top     string // absolute and clean
	isNew   bool   // Unpack has created top
	owner   *Owner // owner of all entries; nil: the owners in the archive
	prefix  string // prefix of the names of temporary files
	made    int    // number of temporary files
	buffer  []byte
	names   int // total length of the names in folders, in bytes
	folders []folderEntry
	dir     *os.File // the directory of the last entry; nil if there is none
	dirName string
	counts  Unpacked
}

// folderEntry is a directory that gets the attributes of its entry at the end.
type folderEntry struct {
	name   string
	header *tar.Header
}

// Unpack unpacks a tar archive below the directory at an absolute path below root. It creates the
// directory if it is missing. It follows links to directories as a program inside root does, and
// never leaves root. Existing directories are merged. Other existing entries are replaced, and each
// new file gets its name only when it is complete.
//
// Entries get the mode, time, owner and extended attributes of the archive. If owner is not nil,
// all entries get this owner. An existing directory keeps its attributes, unless owner is nil and
// its entry is not the top of the archive. Only root can set owners.
//
// Unpack is not atomic: after an error, the entries before it remain. If Unpack succeeds, the
// result is on the disk. It returns an [OperationError] for an entry that it can't write, and
// [Invalid] for an unreadable archive.
func Unpack(ctx context.Context, root int, at string, archive io.Reader, owner *Owner) (Unpacked, error) {
	var random [8]byte
	rand.Read(random[:])
	u := &unpacker{
		ctx: ctx, root: root, top: path.Clean(at), owner: owner, prefix: ".pyro-" + hex.EncodeToString(random[:]) + "-", buffer: make([]byte, 256<<10),
	}
	defer u.leave()
	if err := u.openTop(); err != nil {
		return Unpacked{}, err
	}
	whole := &eofReader{from: bufio.NewReaderSize(archive, 256<<10)}
	entries := tar.NewReader(whole)
	for {
		h, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return u.counts, unreadable(err)
		}
		if err := u.add(h, entries); err != nil {
			return u.counts, &OperationError{h.Name, err}
		}
	}
	err := whole.finish()
	if err == nil {
		err = u.finish()
	}
	return u.counts, err
}

func (u *unpacker) openTop() error {
	dir, err := OpenIn(u.root, u.top, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) {
		u.isNew = true
	}
	if err != nil {
		return MakeFolder(u.root, u.top)
	}
	return dir.Close()
}

// add unpacks one entry.
func (u *unpacker) add(h *tar.Header, content io.Reader) error {
	if err := context.Cause(u.ctx); err != nil {
		return err
	}
	name, err := entryName(h.Name)
	switch {
	case h.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case err != nil:
		return err
	case h.Typeflag == tar.TypeDir:
		return u.folder(name, h)
	case name == ".":
		return Invalid("only a directory can be the top of the archive")
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h, content)
	case tar.TypeSymlink:
		return u.symlink(name, h)
	case tar.TypeLink:
		return u.link(name, h)
	}
	u.counts.Skipped++
	return nil
}

// entryName returns the name of an entry, relative to the top of the archive and clean. The top
// itself is ".". As GNU tar does, entryName ignores a slash at the beginning.
func entryName(name string) (string, error) {
	if len(name) > listing.MaxPath || strings.IndexByte(name, 0) >= 0 {
		return "", Invalid("its name has more than 4096 bytes, or a NUL")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", Invalid(`its name has ".."`)
		}
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

// enter opens the directory of an entry as u.dir, and creates it if it is missing.
func (u *unpacker) enter(name string) error {
	if u.dir != nil && u.dirName == name {
		return nil
	}
	dir, err := folderAt(foldersIn(u.root), path.Join(u.top, name), true)
	if err != nil {
		return err
	}
	u.leave()
	u.dir, u.dirName = dir, name
	return nil
}

func (u *unpacker) leave() {
	if u.dir != nil {
		u.dir.Close()
		u.dir = nil
	}
}

// put creates an entry under a temporary name with the function create, and then moves it to its
// name.
func (u *unpacker) put(name string, create func(dir int, temporary string) error) error {
	if err := u.enter(path.Dir(name)); err != nil {
		return err
	}
	dir, base := int(u.dir.Fd()), path.Base(name)
	var st unix.Stat_t
	exists := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	if exists && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return Conflict("it is a directory, and can be replaced only by a directory")
	}
	u.made++
	temporary := u.temporary()
	err := create(dir, temporary)
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, base)
	}
	switch {
	case err != nil:
		unix.Unlinkat(dir, temporary, 0)
	case exists:
		u.counts.Replaced++
	}
	return err
}

// temporary returns the name of the last temporary file.
func (u *unpacker) temporary() string { return u.prefix + strconv.Itoa(u.made) }

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) error {
	u.counts.Files++
	return u.put(name, func(dir int, temporary string) error {
		fd, err := unix.Openat(dir, temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return createError(dir, err)
		}
		err = u.content(fd, h.Size, content)
		if err == nil {
			err = u.attributes(fd, h)
		}
		if err == nil {
			err = setTime(dir, temporary, h)
		}
		return errors.Join(err, unix.Close(fd))
	})
}

func (u *unpacker) content(fd int, size int64, content io.Reader) error {
	to := sparseFile{fd: fd}
	for at := int64(0); at < size; {
		if err := context.Cause(u.ctx); err != nil { // holes of a sparse file are not read from the request
			return err
		}
		n, err := io.ReadFull(content, u.buffer[:min(size-at, int64(len(u.buffer)))])
		if err != nil {
			return unreadable(err)
		}
		if err := to.write(u.buffer[:n], at); err != nil {
			return err
		}
		at += int64(n)
		u.counts.Bytes += int64(n)
	}
	return to.finish(size)
}

func (u *unpacker) symlink(name string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > listing.MaxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
		return Invalid("the target of a symbolic link must have 1 to 4096 bytes without NUL")
	}
	u.counts.Links++
	return u.put(name, func(dir int, temporary string) error {
		if err := unix.Symlinkat(h.Linkname, dir, temporary); err != nil {
			return createError(dir, err)
		}
		err := u.setOwner(h, func(uid, gid int) error { return unix.Fchownat(dir, temporary, uid, gid, unix.AT_SYMLINK_NOFOLLOW) },
			func(st *unix.Stat_t) error { return unix.Fstatat(dir, temporary, st, unix.AT_SYMLINK_NOFOLLOW) }, nil)
		if err != nil {
			return err
		}
		return setTime(dir, temporary, h)
	})
}

// link creates a hard link to an entry below the top of the archive.
func (u *unpacker) link(name string, h *tar.Header) error {
	target, err := entryName(h.Linkname)
	if err != nil || target == "." {
		return Invalid("the target of a hard link must be the name of an entry")
	}
	from, err := OpenIn(u.root, path.Join(u.top, path.Dir(target)), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("its target: %w", err)
	}
	defer from.Close()
	u.counts.Links++
	err = u.put(name, func(dir int, temporary string) error {
		err := unix.Linkat(int(from.Fd()), path.Base(target), dir, temporary, 0)
		if err != nil {
			err = &os.LinkError{Op: "link", Old: h.Linkname, New: h.Name, Err: err}
		}
		return err
	})
	if err == nil { // if the name was already a link to the same file, the rename did nothing
		unix.Unlinkat(int(u.dir.Fd()), u.temporary(), 0)
	}
	return err
}
