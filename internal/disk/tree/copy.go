package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Copy copies the folder src to dst, which must not exist.
// The copy preserves the following:
//   - modes with their set-id bits.
//   - modification times of files, links and folders.
//   - symbolic links, hard links, holes, FIFOs and sockets.
//   - extended attributes and access control lists of files and folders.
//   - owners and devices, if the process is root.
//
// If the process is not root, it owns the copy. Copy then skips devices. It also drops the set-id
// bits of files that another user or group owns. Files share blocks with the originals if the file
// system supports it.
//
// If Copy detects that src changes during the copy, the error has kind Precondition. On any error
// Copy removes dst. Copy does not flush the files to disk. Use Flush for that.
func Copy(ctx context.Context, dst, src string) (Stats, error) {
	return CopySharing(ctx, dst, src, Sharing{})
}

// CopySharing is like Copy, but some files of the copy are hard links. Such a file must never
// change. If the file system can't mark or link files, they are copied.
func CopySharing(ctx context.Context, dst, src string, sharing Sharing) (Stats, error) {
	const op = "copy folder"
	from, err := openTop(src)
	if err != nil {
		return Stats{}, withPath(err, op, src)
	}
	c, err := newCopier(ctx, dst, src)
	if err != nil {
		unix.Close(from)
		return Stats{}, err
	}
	c.marking = marking{Sharing: sharing, works: true}
	defer c.share(sharing.Base, src).close()
	err = walk(ctx, from, src, c)
	c.at.close()
	if err != nil {
		return Stats{}, discard(ctx, withPath(err, op, src), dst)
	}
	return c.stats, nil
}

// copier is the visitor that writes the copy.
type copier struct {
	ctx    context.Context
	src    string
	at     *trail      // the folder that the copier is writing
	folder *copyFolder // The same folder, as a path that stays valid when the descriptor refers to another folder.
	links  links
	root   bool // The process is allowed to set owners.
	uid    uint32
	gid    uint32
	clone  bool   // False if the file systems can't share blocks.
	buffer []byte // buffer for file content and attribute values
	names  []byte // for attribute names
	stats  Stats
	base   base // the files that the copy shares

	marking
}

func newCopier(ctx context.Context, dst, src string) (*copier, error) {
	const op = "make folder"
	if err := unix.Mkdir(dst, 0o700); err != nil {
		return nil, withPath(err, op, dst)
	}
	top, err := openTop(dst)
	if err != nil {
		return nil, discard(ctx, withPath(err, op, dst), dst)
	}
	at, _, err := newTrail(top)
	if err != nil {
		return nil, discard(ctx, withPath(err, op, dst), dst)
	}
	return &copier{
		ctx: ctx, src: src, at: at, folder: &copyFolder{}, links: links{}, clone: true, buffer: make([]byte, smallFile), names: make([]byte, 64<<10),
		root: os.Geteuid() == 0, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()),
	}, nil
}

// Enter creates the folder and copies all of its entries except subfolders. Only the owner can
// access the new folder until Leave sets its mode.
func (c *copier) Enter(from *Folder, content []Entry) error {
	if err := c.mkdir(from); err != nil {
		return withPath(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	c.base.enter(c.folder)
	defer c.base.leave()
	c.marking.enter(from.fd)
	for _, e := range content {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(from, e); err != nil {
			return withPath(err, "copy", filepath.Join(c.src, from.Path(e.Name)))
		}
	}
	if slices.ContainsFunc(content, func(e Entry) bool { return e.Kind == unix.S_IFREG }) {
		c.markFolders(from.fd, c.at.fd())
	}
	return nil
}

func (c *copier) mkdir(from *Folder) error {
	if from.IsTop() {
		return nil
	}
	if identityOf(from.Stat) == c.at.steps[0].id {
		return fault.New(fault.Invalid, "copy folder", shortened(c.src), "the destination is inside the source")
	}
	name := from.Name()
	if err := unix.Mkdirat(c.at.fd(), name, 0o700); err != nil {
		return err
	}
	fd, err := openAt(c.at.fd(), name, folderFlags, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	c.at.down(fd, name, &st)
	c.folder = &copyFolder{c.folder, name}
	c.stats.Folders++
	return nil
}

func (c *copier) entry(from *Folder, e Entry) error {
	switch e.Kind {
	case unix.S_IFDIR: // Enter creates it.
		return nil
	case unix.S_IFREG:
		return c.file(from, e.Name)
	}
	return c.other(from, e)
}

// Leave sets the attributes, time and mode of the folder after all entries are copied. Creating an
// entry would change the time, and the mode could forbid new entries.
func (c *copier) Leave(from *Folder) error {
	if err := c.leave(from); err != nil {
		return withPath(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	return nil
}

func (c *copier) leave(from *Folder) error {
	if err := c.attributes(c.at.fd(), from.fd, from.Stat); err != nil {
		return err
	}
	if err := touch(c.at.fd(), ".", from.Stat.Mtim); err != nil {
		return err
	}
	if from.IsTop() {
		return unix.Fchmod(c.at.fd(), c.mode(from.Stat))
	}
	done, err := c.at.up()
	if err != nil {
		return err
	}
	defer unix.Close(done.fd)
	c.folder = c.folder.parent
	return unix.Fchmod(done.fd, c.mode(from.Stat))
}

func (c *copier) file(from *Folder, name string) error {
	if link, err := c.linksSource(from, name); err != nil {
		return err
	} else if link {
		if done, err := c.shareFrom(from.fd, name); done || err != nil {
			return err
		}
	}
	src, st, err := from.Open(name)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	if done, err := c.link(name, &st); done || err != nil {
		c.unmarked++
		return err
	}
	if same, err := c.sameInBase(src, name, &st); err != nil {
		return err
	} else if same {
		c.unmarked++
		if done, err := c.shareFrom(c.base.at, name); done || err != nil {
			return err
		}
	}
	dst, err := openAt(c.at.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	if err := c.data(dst, src, &st); err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(src, &after); err != nil {
		return err
	}
	if after.Size != st.Size || after.Mtim != st.Mtim {
		return errChanged
	}
	if err := c.attributes(dst, src, &st); err != nil {
		return err
	}
	if st.Nlink == 1 {
		c.mark(dst)
	} else {
		c.unmarked++
	}
	if err := unix.Fchmod(dst, c.mode(&st)); err != nil {
		return err
	}
	c.remember(name, &st)
	c.stats.Files++
	c.stats.Bytes += st.Size
	return touch(c.at.fd(), name, st.Mtim)
}

// other copies an entry that is neither a file nor a folder.
func (c *copier) other(from *Folder, e Entry) error {
	st, err := from.Lstat(e)
	if err != nil {
		return err
	}
	if done, err := c.link(e.Name, &st); done || err != nil {
		return err
	}
	to := c.at.fd()
	if e.Kind == unix.S_IFLNK {
		text, err := from.Readlink(e.Name)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(text, to, e.Name); err != nil {
			return err
		}
		c.stats.Symlinks++
	} else {
		device := e.Kind == unix.S_IFCHR || e.Kind == unix.S_IFBLK
		err := unix.Mknodat(to, e.Name, e.Kind|0o600, int(st.Rdev))
		if device && errors.Is(err, unix.EPERM) { // Root in a user namespace cannot create devices either.
			c.stats.Skipped++
			return nil
		}
		if err != nil {
			return err
		}
		c.stats.Special++
	}
	c.remember(e.Name, &st)
	if c.root {
		if err := unix.Fchownat(to, e.Name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if e.Kind != unix.S_IFLNK {
		if err := unix.Fchmodat(to, e.Name, c.mode(&st), 0); err != nil {
			return err
		}
	}
	return touch(to, e.Name, st.Mtim)
}
