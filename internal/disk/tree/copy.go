package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Copy makes dst, where nothing may be yet, an exact copy of the folder src: modes with their set-id bits, times of files, links and folders, symbolic and
// hard links, holes, extended attributes and access lists of files and folders, FIFOs and sockets; as root also owners and devices, else all is
// the caller's, devices are skipped, and so are the set-id bits of what somebody else owns. Files share their blocks with the originals where the file
// system can do that.
//
// What changes in src meanwhile is an error of kind Precondition where it is noticed. On any error nothing of dst is left. Nothing is flushed: see Flush.
func Copy(ctx context.Context, dst, src string) (Stats, error) {
	const op = "copy folder"
	from, err := openTop(src)
	if err != nil {
		return Stats{}, named(err, op, src)
	}
	c, err := newCopier(ctx, dst, src)
	if err != nil {
		unix.Close(from)
		return Stats{}, err
	}
	err = walk(ctx, from, src, c)
	c.at.close()
	if err != nil {
		return Stats{}, abandon(ctx, named(err, op, src), dst)
	}
	return c.stats, nil
}

// copier is the visitor that makes the copy.
type copier struct {
	ctx    context.Context
	src    string
	at     *trail // of the copy
	crumb  *crumb // the same, to be kept
	links  links
	root   bool // owners can be given
	uid    uint32
	gid    uint32 // the caller's
	clone  bool   // the file system has not said that it can't share blocks
	buffer []byte // for content, and values of attributes
	names  []byte // of attributes
	stats  Stats
}

func newCopier(ctx context.Context, dst, src string) (*copier, error) {
	const op = "make folder"
	if err := unix.Mkdir(dst, 0o700); err != nil {
		return nil, named(err, op, dst)
	}
	top, err := openTop(dst)
	if err != nil {
		return nil, abandon(ctx, named(err, op, dst), dst)
	}
	at, _, err := newTrail(top)
	if err != nil {
		return nil, abandon(ctx, named(err, op, dst), dst)
	}
	return &copier{
		ctx: ctx, src: src, at: at, crumb: &crumb{}, links: links{}, clone: true, buffer: make([]byte, smallFile), names: make([]byte, 64<<10),
		root: os.Geteuid() == 0, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()),
	}, nil
}

// Enter makes the folder, for now for nobody else, and copies what is in it but folders.
func (c *copier) Enter(from *Folder, content []Entry) error {
	if err := c.folder(from); err != nil {
		return named(err, "copy", filepath.Join(c.src, from.Path("")))
	}
	for _, e := range content {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(from, e); err != nil {
			return named(err, "copy", filepath.Join(c.src, from.Path(e.Name)))
		}
	}
	return nil
}

func (c *copier) folder(from *Folder) error {
	if from.IsTop() {
		return nil
	}
	if identityOf(from.Stat) == c.at.steps[0].id {
		return fault.New(fault.Invalid, "copy folder", shortened(c.src), "the copy would be inside it")
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
	c.crumb = &crumb{c.crumb, name}
	c.stats.Folders++
	return nil
}

func (c *copier) entry(from *Folder, e Entry) error {
	switch e.Kind {
	case unix.S_IFDIR: // is entered
		return nil
	case unix.S_IFREG:
		return c.file(from, e.Name)
	}
	return c.other(from, e)
}

// Leave gives the folder what it could not have while things were put into it.
func (c *copier) Leave(from *Folder) error {
	if err := c.leave(from); err != nil {
		return named(err, "copy", filepath.Join(c.src, from.Path("")))
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
	made, err := c.at.up()
	if err != nil {
		return err
	}
	defer unix.Close(made.fd)
	c.crumb = c.crumb.above
	return unix.Fchmod(made.fd, c.mode(from.Stat))
}

func (c *copier) file(from *Folder, name string) error {
	src, st, err := from.Open(name)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	if done, err := c.link(name, &st); done || err != nil {
		return err
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
	if err := unix.Fchmod(dst, c.mode(&st)); err != nil {
		return err
	}
	c.met(name, &st)
	c.stats.Files++
	c.stats.Bytes += st.Size
	return touch(c.at.fd(), name, st.Mtim)
}

// other copies what is neither file nor folder.
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
		if device && errors.Is(err, unix.EPERM) { // also root of a user namespace can't
			c.stats.Skipped++
			return nil
		}
		if err != nil {
			return err
		}
		c.stats.Special++
	}
	c.met(e.Name, &st)
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
