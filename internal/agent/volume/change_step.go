package volume

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// stepKind is the kind of a step.
type stepKind byte

const (
	stepCreate       stepKind = 1 + iota // move the staged file to a free path.
	stepMakeFolder                       // the same for a directory.
	stepReplace                          // put the old file into the slot, then move the staged file to its path.
	stepRemove                           // move the file to the slot.
	stepRemoveFolder                     // the same for an empty directory.
	stepMode                             // set the mode.
	stepPlaced                           // moved with its directory. After an undo: as stepCreate.
	stepPlacedFolder                     // the same for a directory.
	stepKinds
)

// step is a reversible modification of the tree. The files in the slot of a step show whether the
// step is done. So recovery can continue it forward or backward.
type step struct {
	kind     stepKind
	slot     uint32
	path     string
	mode     uint32 // the new mode, for stepMode.
	before   uint32 // the old mode.
	top      uint32 // slot of the moved directory, for stepPlaced and stepPlacedFolder.
	expected *stat  // the entry to replace or remove; nil if unknown
}

// placed reports whether an earlier step moves the entry together with its directory.
func (s *step) placed() bool { return s.kind == stepPlaced || s.kind == stepPlacedFolder }

// replaces reports whether the steps file describes the old entry of the step.
func (s *step) replaces() bool { return s.kind == stepReplace || s.kind == stepRemove }

// errModified means that an entry has changed since it was checked.
const errModified = Conflict("it was modified during the change")

// applySteps applies the steps. During recovery, live is false.
func (c *change) applySteps(live bool) error {
	c.parent.leave()
	for i := range c.steps {
		s := &c.steps[i]
		if err := c.do(s, live); err != nil {
			if treeModified(err) {
				err = errModified
			}
			return &OperationError{s.path, err}
		}
	}
	return nil
}

// undoSteps undoes the steps that were applied, in reverse order. It skips entries that other
// programs have modified.
func (c *change) undoSteps() error {
	c.parent.leave()
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := &c.steps[i]
		if err := c.undo(s); err != nil && !treeModified(err) {
			return &OperationError{s.path, err}
		}
	}
	return nil
}

// treeModified reports whether an error means that another program has modified the tree.
func treeModified(err error) bool {
	return isMissing(err) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, errModified)
}

// location describes where a step takes place.
type location struct {
	slot int    // directory that contains the step's slot.
	new  bool   // the slot has a staged file.
	old  bool   // the slot has a replaced file.
	dir  int    // parent directory of the step's path.
	name string // last component of the step's path.
}

// inspectSlot opens the slot of a step and finds out which files it has.
func (c *change) inspectSlot(s *step) (at location, err error) {
	if at.slot, err = c.slotFolder(s.slot); err != nil {
		return at, err
	}
	if at.new, err = existsAt(at.slot, stagedName(s.slot)); err != nil {
		return at, err
	}
	at.old, err = existsAt(at.slot, replacedName(s.slot))
	return at, err
}

// do applies a step. During recovery, live is false, and do applies only the part of the step that
// is not done yet.
func (c *change) do(s *step, live bool) error {
	if live && s.placed() {
		return nil
	}
	var at location
	var err error
	if live {
		at.new = true
		at.slot, err = c.slotFolder(s.slot)
	} else {
		at, err = c.inspectSlot(s)
	}
	if err != nil {
		return err
	}
	removes := s.kind == stepRemove || s.kind == stepRemoveFolder
	if removes && at.old || !removes && !at.new {
		return nil // the step is done, and later steps might have removed its path
	}
	if at.dir, at.name, err = c.parentFolder(s.path); err != nil {
		return err
	}
	if !live {
		if edited, err := c.edited(s, at); err != nil || edited {
			return err
		}
	}
	switch s.kind {
	case stepCreate, stepMakeFolder, stepPlaced, stepPlacedFolder:
		return c.move(at.slot, stagedName(s.slot), at.dir, at.name)
	case stepReplace:
		return c.replace(s, at)
	case stepMode:
		return c.setModeOf(s, at)
	default:
		if err := c.move(at.dir, at.name, at.slot, replacedName(s.slot)); err != nil {
			return err
		}
		return c.verifyReplaced(s, at)
	}
}

// edited reports whether another program has modified an entry between the crash and the recovery.
// Recovery does not apply any more steps to its path. An undo of the whole change would not be
// better: it would also replace entries that were modified after their step.
func (c *change) edited(s *step, at location) (bool, error) {
	if s.expected != nil && !c.edits[s.path] {
		st, err := lstatAt(at.dir, at.name)
		if err == errNoEntry {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !s.expects(&st) {
			c.edits[s.path] = true
		}
	}
	return c.edits[s.path], nil
}

// undo undoes a step, or the part of the step that is done. The slot then shows that the step is
// not applied. After a crash, all steps are undone again, and the path can have the entry of an
// earlier step by then.
func (c *change) undo(s *step) error {
	if s.placed() {
		folder, err := c.slotFolder(s.top)
		if err != nil {
			return err
		}
		if waits, err := existsAt(folder, stagedName(s.top)); err != nil || waits {
			return err // its directory was not moved, or was moved back
		}
	}
	at, err := c.inspectSlot(s)
	if err != nil {
		return err
	}
	creates := s.kind == stepCreate || s.kind == stepMakeFolder || s.placed()
	if creates && at.new || !creates && !at.old {
		return nil // the step was not applied
	}
	if at.dir, at.name, err = c.parentFolder(s.path); err != nil {
		return err
	}
	switch {
	case s.kind == stepCreate, s.kind == stepPlaced:
		return c.move(at.dir, at.name, at.slot, stagedName(s.slot))
	case s.kind == stepMakeFolder, s.kind == stepPlacedFolder:
		return c.undoFolder(s, at)
	case s.kind == stepMode:
		if err := c.chmod(s, at, s.before); err != nil {
			return err
		}
		return c.unlink(at.slot, replacedName(s.slot), 0)
	case s.kind == stepReplace && !at.new:
		return c.rename(at.slot, replacedName(s.slot), at.dir, at.name)
	}
	err = c.move(at.slot, replacedName(s.slot), at.dir, at.name)
	if s.kind == stepReplace && err == unix.EEXIST { // the old file is still at its path
		return c.unlink(at.slot, replacedName(s.slot), 0)
	}
	return err
}

// replace puts the old file into the slot and moves the staged file into place.
func (c *change) replace(s *step, at location) error {
	if !at.old {
		if err := c.keepReplaced(s, at); err != nil {
			return err
		}
	}
	return c.rename(at.slot, stagedName(s.slot), at.dir, at.name)
}

// verifyReplaced checks that the entry in the slot is the expected one.
func (c *change) verifyReplaced(s *step, at location) error {
	st, err := lstatAt(at.slot, replacedName(s.slot))
	if err != nil {
		return err
	}
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case folder != (s.kind == stepRemoveFolder):
		return errModified
	case folder:
		empty, err := emptyFolder(at.slot, replacedName(s.slot))
		if err == nil && !empty {
			err = errModified
		}
		return err
	case !s.expects(&st):
		return errModified
	}
	return nil
}

// expects reports whether an entry is the one to replace.
func (s *step) expects(st *unix.Stat_t) bool {
	if s.expected == nil {
		return true
	}
	found := statOf(st)
	if s.expected.inode == 0 { // from the steps file
		found.inode = 0
	}
	return *s.expected == *found
}

// undoFolder undoes the creation of a directory, unless another program has added entries to it.
func (c *change) undoFolder(s *step, at location) error {
	if empty, err := emptyFolder(at.dir, at.name); err != nil || !empty {
		return err
	}
	return c.move(at.dir, at.name, at.slot, stagedName(s.slot))
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

// move renames an entry to a path that must be free.
func (c *change) move(from int, name string, to int, as string) error {
	if err := c.beforeWrite("move"); err != nil {
		return err
	}
	err := unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// The file system does not support RENAME_NOREPLACE.
	if _, err := lstatAt(to, as); err == nil {
		return unix.EEXIST
	} else if err != errNoEntry {
		return err
	}
	return unix.Renameat(from, name, to, as)
}

// rename renames a file. It replaces a file at the new path.
func (c *change) rename(from int, name string, to int, as string) error {
	if err := c.beforeWrite("rename"); err != nil {
		return err
	}
	if err := unix.Renameat(from, name, to, as); err != nil {
		return err
	}
	// If both names are links to the same file, rename(2) does nothing, and the old name stays.
	return c.unlink(from, name, 0)
}

// setModeOf sets a mode. It first creates the replaced file in the slot, which records that the
// step has begun.
func (c *change) setModeOf(s *step, at location) error {
	if !at.old {
		if err := c.beforeWrite("begin to set a mode"); err != nil {
			return err
		}
		fd, err := unix.Openat(at.slot, replacedName(s.slot), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	if err := c.chmod(s, at, s.mode); err != nil {
		return err
	}
	return c.unlink(at.slot, stagedName(s.slot), 0)
}

// chmod sets the mode of a file or directory. It does not follow links.
func (c *change) chmod(s *step, at location, mode uint32) error {
	fd, err := unix.Openat(at.dir, at.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := kindOf(st.Mode)
	other := s.expected != nil && s.expected.inode != st.Ino && !c.copied[s.path]
	if other || kind != listing.File && kind != listing.Folder {
		return errModified
	}
	if err := c.beforeWrite("set a mode"); err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), mode, 0)
}
