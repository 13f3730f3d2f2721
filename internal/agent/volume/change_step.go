package volume

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// stepKind is what a step does with its path and its slot.
type stepKind byte

const (
	stepCreate       stepKind = 1 + iota // what is staged is put where nothing is
	stepMakeFolder                       // the same, of a folder
	stepReplace                          // what is there is put aside, what is staged in its place
	stepRemove                           // what is there is put aside
	stepRemoveFolder                     // the same, of an empty folder
	stepMode                             // the mode is set
	stepKinds
)

// step is one thing that is done with the tree, and can be undone. Whether it has been, its slot tells: so both can be gone on with where a crash cut them.
type step struct {
	kind   stepKind
	slot   uint32
	path   string
	mode   uint32 // of stepMode
	before uint32 // the mode before
	was    *stat  // what is there, where that is known and so for as long as the agent lives: else somebody else was there meanwhile
}

// errMeanwhile says that something else is there than was when the change was checked.
const errMeanwhile = Conflict("it was changed meanwhile")

// forward does the steps. live: for the first time.
func (c *change) forward(live bool) error {
	c.parent.leave()
	for c.begun = 0; c.begun < len(c.steps); {
		s := &c.steps[c.begun]
		c.begun++
		if err := c.do(s, live); err != nil {
			if elsewise(err) {
				err = errMeanwhile
			}
			return &Refusal{s.path, err}
		}
	}
	return nil
}

// backward undoes the steps that were begun, the last first. What somebody else has done to the tree meanwhile does not keep the rest from being undone.
func (c *change) backward() error {
	c.parent.leave()
	for ; c.begun > 0; c.begun-- {
		s := &c.steps[c.begun-1]
		if err := c.undo(s); err != nil && !elsewise(err) {
			return &Refusal{s.path, err}
		}
	}
	return nil
}

// elsewise tells whether an error says that the tree is not as it was left.
func elsewise(err error) bool {
	return missing(err) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, errMeanwhile)
}

// spot is where a step is done.
type spot struct {
	slot int    // the folder of its slot
	new  bool   // there is something staged in the slot
	old  bool   // there is something put aside in the slot
	dir  int    // the folder of its path
	name string // in dir
}

// lookAt gives what is in a step's slot.
func (c *change) lookAt(s *step) (at spot, err error) {
	if at.slot, err = c.slotFolder(s.slot); err != nil {
		return at, err
	}
	if at.new, err = isThere(at.slot, staged(s.slot)); err != nil {
		return at, err
	}
	at.old, err = isThere(at.slot, aside(s.slot))
	return at, err
}

// do does a step, or what is left of it. live: nothing of it has been done yet.
func (c *change) do(s *step, live bool) error {
	var at spot
	var err error
	if live {
		at.new = true
		at.slot, err = c.slotFolder(s.slot)
	} else {
		at, err = c.lookAt(s)
	}
	if err != nil {
		return err
	}
	removes := s.kind == stepRemove || s.kind == stepRemoveFolder
	if removes && at.old || !removes && !at.new {
		return nil // it has been done, and there may be nothing left of where
	}
	if at.dir, at.name, err = c.parentFolder(s.path); err != nil {
		return err
	}
	switch s.kind {
	case stepCreate, stepMakeFolder:
		return c.move(at.slot, staged(s.slot), at.dir, at.name)
	case stepReplace:
		return c.replace(s, at)
	case stepMode:
		return c.setModeOf(s, at)
	default:
		if err := c.move(at.dir, at.name, at.slot, aside(s.slot)); err != nil {
			return err
		}
		return c.expects(s, at)
	}
}

// undo undoes a step, or what has been done of it.
func (c *change) undo(s *step) error {
	at, err := c.lookAt(s)
	if err != nil {
		return err
	}
	creates := s.kind == stepCreate || s.kind == stepMakeFolder
	if creates && at.new || !creates && !at.old {
		return nil // nothing of it has been done
	}
	if at.dir, at.name, err = c.parentFolder(s.path); err != nil {
		return err
	}
	switch {
	case s.kind == stepCreate:
		return c.move(at.dir, at.name, at.slot, staged(s.slot))
	case s.kind == stepMakeFolder:
		return c.takeFolderBack(s, at)
	case s.kind == stepMode:
		return c.chmod(s, at, s.before)
	case s.kind == stepReplace && !at.new:
		return c.rename(at.slot, aside(s.slot), at.dir, at.name)
	default: // it may be there still
		return c.move(at.slot, aside(s.slot), at.dir, at.name)
	}
}

// replace has a name stand for what is staged.
func (c *change) replace(s *step, at spot) error {
	if !at.old {
		if err := c.putAside(s, at); err != nil {
			return err
		}
		if err := c.expects(s, at); err != nil {
			return err
		}
	}
	if err := c.rename(at.slot, staged(s.slot), at.dir, at.name); err != nil {
		return err
	}
	// Of two names of one file, renaming leaves both.
	if err := c.does("leave the slot"); err != nil {
		return err
	}
	if err := unix.Unlinkat(at.slot, staged(s.slot), 0); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}

// putAside gives what is to be replaced a name in the slot too, so that its own never stands for nothing. Where there are no hard links that can be relied on it
// is moved there. (gVisor refuses a link to a file that had another name which is gone.)
func (c *change) putAside(s *step, at spot) error {
	if c.volume.reach == Whole {
		err := c.does("put aside")
		if err == nil {
			err = unix.Linkat(at.dir, at.name, at.slot, aside(s.slot), 0)
		}
		if err != unix.EPERM && err != unix.EOPNOTSUPP && err != unix.EMLINK && err != unix.ENOSYS {
			return err
		}
	}
	return c.move(at.dir, at.name, at.slot, aside(s.slot))
}

// expects checks that what was put aside is what was to be.
func (c *change) expects(s *step, at spot) error {
	st, err := there(at.slot, aside(s.slot))
	if err != nil {
		return err
	}
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case folder != (s.kind == stepRemoveFolder):
		return errMeanwhile
	case folder:
		empty, err := emptyFolder(at.slot, aside(s.slot))
		if err == nil && !empty {
			err = errMeanwhile
		}
		return err
	case s.was != nil && *s.was != *statOf(&st):
		return errMeanwhile
	}
	return nil
}

// takeFolderBack takes a folder back, unless somebody has put something into it.
func (c *change) takeFolderBack(s *step, at spot) error {
	if empty, err := emptyFolder(at.dir, at.name); err != nil || !empty {
		return err
	}
	return c.move(at.dir, at.name, at.slot, staged(s.slot))
}

func emptyFolder(dir int, name string) (bool, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	names, err := namesIn(fd)
	return len(names) == 0, err
}

// move renames something to where nothing is.
func (c *change) move(from int, name string, to int, as string) error {
	if err := c.does("move"); err != nil {
		return err
	}
	err := unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// The file system can't make sure of it.
	if _, err := there(to, as); err == nil {
		return unix.EEXIST
	} else if err != errNothing {
		return err
	}
	return unix.Renameat(from, name, to, as)
}

// rename renames something to where there may be something else, which is gone then.
func (c *change) rename(from int, name string, to int, as string) error {
	if err := c.does("rename"); err != nil {
		return err
	}
	return unix.Renameat(from, name, to, as)
}

// setModeOf sets a mode. What marks it as still to be done is put aside first, so that it is known to have begun.
func (c *change) setModeOf(s *step, at spot) error {
	if !at.old {
		if err := c.does("begin to set a mode"); err != nil {
			return err
		}
		fd, err := unix.Openat(at.slot, aside(s.slot), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	if err := c.chmod(s, at, s.mode); err != nil {
		return err
	}
	return c.unlink(at.slot, staged(s.slot), 0)
}

// chmod sets the mode of a file or a folder, never of what a link leads to.
func (c *change) chmod(s *step, at spot, mode uint32) error {
	fd, err := unix.Openat(at.dir, at.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := kindOf(st.Mode); kind != listing.File && kind != listing.Folder || s.was != nil && s.was.inode != st.Ino {
		return errMeanwhile
	}
	if err := c.does("set a mode"); err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), mode, 0)
}
