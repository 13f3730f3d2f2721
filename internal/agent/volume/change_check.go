package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// node describes an entry of the tree as it will be after the operations checked so far.
type node struct {
	kind   listing.Kind // 0 if there is no entry
	staged bool         // this change has staged the entry, in slot
	slot   uint32
	mode   uint32
	owner  owner
	want   uint32 // final mode of a staged directory.
	extra  int    // number of added entries; in a staged directory, of all entries.
	onDisk *stat  // describes the entry on disk; nil if the entry is new.
	place  *place // of a staged directory; otherwise nil.
	within *place // of a staged file: the place that contains it; nil: it is in the slot.
	freed  bool   // an earlier operation has removed an entry from the path.
}

// owner is the owner of a file.
type owner struct{ uid, gid int }

// stat identifies the entry that a step replaces or removes. If the step finds a different entry,
// another program has modified the tree.
type stat struct {
	inode   uint64
	size    int64
	modTime unix.Timespec
}

func statOf(st *unix.Stat_t) *stat { return &stat{st.Ino, st.Size, st.Mtim} }

// check checks the operations in order and turns them into steps.
func (c *change) check() error {
	c.tree[""] = &node{kind: listing.Folder}
	for i := range c.operations {
		op := &c.operations[i]
		if err := c.checkExpected(op); err != nil {
			return err
		}
		if err := c.checkOperation(op); err != nil {
			if r := (*OperationError)(nil); errors.As(err, &r) {
				err = r.Err
			}
			return &OperationError{op.path, err}
		}
	}
	if err := c.setFolderModes(); err != nil {
		return err
	}
	return c.stageLinks()
}

// setFolderModes adds steps for the final modes of staged directories. These steps come last,
// because a final mode can forbid adding entries.
func (c *change) setFolderModes() error {
	for _, path := range c.deferredModes {
		n := c.tree[path]
		if n.kind != listing.Folder || !n.staged || n.mode == n.want {
			continue
		}
		if err := c.setMode(path, n, n.want); err != nil {
			return err
		}
	}
	return nil
}

// checkExpected checks the PYRO.expect record of an operation against the disk.
func (c *change) checkExpected(op *operation) error {
	if op.expect == nil && !op.absent {
		return nil
	}
	st, err := c.onDisk(op.path)
	switch {
	case err == errNoEntry && op.absent:
		return nil
	case err == errNoEntry:
		return conflicts(op.path, "it no longer exists")
	case err != nil:
		return err
	case op.absent:
		return conflicts(op.path, "it exists already")
	case *op.expect != (listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: st.Mode & 0o7777}):
		return conflicts(op.path, "it has changed")
	}
	return nil
}

// onDisk describes the entry at a path on disk. It returns errNoEntry if there is no entry.
func (c *change) onDisk(path string) (st unix.Stat_t, err error) {
	dir, last, err := c.parentFolder(path)
	if err != nil {
		if isMissing(err) {
			err = errNoEntry
		}
		return st, err
	}
	return lstatAt(dir, last)
}

// lookUp returns the node at a path. in is the node of the parent directory, so callers must have
// looked up all parents before.
func (c *change) lookUp(path string, in *node) (*node, error) {
	if n := c.tree[path]; n != nil {
		return n, nil
	}
	n := &node{}
	if !in.staged {
		st, err := c.onDisk(path)
		switch {
		case err == nil:
			n.kind, n.mode, n.owner, n.onDisk = kindOf(st.Mode), st.Mode&0o7777, owner{int(st.Uid), int(st.Gid)}, statOf(&st)
			if p := c.places[path]; p != nil { // another program has created the path since
				p.used = true
			}
		case err != errNoEntry:
			return nil, err
		}
	}
	c.tree[path] = n
	return n, nil
}

// folderOf returns the parent directory of a path. If create is true, folderOf creates missing
// parents.
func (c *change) folderOf(path string, create bool) (*node, error) {
	above, _ := parentOf(path)
	if n := c.tree[above]; n != nil && n.kind == listing.Folder {
		return n, nil
	}
	in, err := c.folderOf(above, create)
	if err != nil {
		return nil, err
	}
	n, err := c.lookUp(above, in)
	switch {
	case err != nil:
		return nil, err
	case n.kind == listing.Folder:
		return n, nil
	case n.kind == listing.Link:
		return nil, conflicts(path, "%q above it is a symbolic link, which is not followed", above)
	case n.kind != 0:
		return nil, conflicts(path, "its parent %q is not a directory", above)
	case !create:
		return nil, conflicts(path, "it does not exist")
	}
	return n, c.makeFolder(above, in, n, defaultFolderMode)
}

// defaultFolderMode is the mode of a directory that is created only because it is missing.
const defaultFolderMode = 0o755

// makeFolder stages a directory for a path that has no entry. Until the end of the change, the
// owner of the directory has full access to it.
func (c *change) makeFolder(path string, in, n *node, mode uint32) error {
	p := c.places[path]
	var err error
	switch {
	case p == nil || p.used:
		p = &place{mode: mode}
		err = c.makePlace(p)
	case p.in != nil && (p.in != in.place || n.freed):
		err = c.takeOut(p)
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	p.used = true
	s := step{kind: stepMakeFolder, slot: p.slot, path: path}
	if p.in != nil {
		s.kind, s.top = stepPlacedFolder, p.top().slot
	}
	*n = node{kind: listing.Folder, staged: true, slot: p.slot, mode: p.mode | 0o700, want: mode, place: p}
	if n.mode != n.want {
		c.deferredModes = append(c.deferredModes, path)
	}
	in.extra++
	c.steps = append(c.steps, s)
	return nil
}

// checkOperation checks one operation and adds its steps.
func (c *change) checkOperation(op *operation) error {
	puts := op.verb != removePath && op.verb != setMode
	in, err := c.folderOf(op.path, puts)
	if err != nil {
		return err
	}
	n, err := c.lookUp(op.path, in)
	if err != nil {
		return err
	}
	if n.kind == 0 && !puts {
		return conflicts(op.path, "it does not exist")
	}
	switch {
	case op.verb == removePath:
		c.counts.Deleted++
	case n.kind == 0:
		c.counts.Created++
	case op.verb == putFolder && n.kind == listing.Folder: // merged
	default:
		c.counts.Replaced++
	}
	switch op.verb {
	case putFolder:
		return c.putFolder(op, in, n)
	case putLink:
		target, err := c.target(op)
		if err != nil {
			return err
		}
		return c.put(op, in, n, target)
	case putFile:
		if op.place != nil && (op.place != in.place || n.kind != 0 || n.freed) {
			_, name := parentOf(op.path)
			if err := c.toSlot(op.place, name, op.slot); err != nil {
				return err
			}
			op.place = nil
		}
		made := node{kind: listing.File, mode: op.mode, owner: owner{os.Geteuid(), os.Getegid()}}
		if op.link {
			made.kind = listing.Link
		} else if op.keep && n.kind == listing.File {
			if err := c.keep(op, n, &made); err != nil {
				return err
			}
		}
		return c.put(op, in, n, made)
	case setMode:
		return c.changeMode(op, n)
	default:
		return c.remove(op, in, n)
	}
}

// changeMode sets the mode of an existing entry.
func (c *change) changeMode(op *operation, n *node) error {
	switch {
	case n.kind == listing.Folder && n.staged:
		n.want = op.mode
		c.deferredModes = append(c.deferredModes, op.path)
		return nil
	case n.kind == listing.Folder || n.kind == listing.File:
		return c.setMode(op.path, n, op.mode)
	}
	return conflicts(op.path, "only files and directories have a mode")
}

func (c *change) setMode(path string, n *node, mode uint32) error {
	if mode == n.mode {
		return nil
	}
	slot, err := c.newSlot()
	if err != nil {
		return err
	}
	dir, err := c.slotFolder(slot)
	if err != nil {
		return err
	}
	// While the staged file exists, the step is not done.
	if err := c.beforeWrite("mark the entry that gets a mode"); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, stagedName(slot), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	c.steps = append(c.steps, step{kind: stepMode, slot: slot, path: path, mode: mode, before: n.mode, expected: n.onDisk})
	n.mode = mode
	return nil
}

// remove removes an existing entry.
func (c *change) remove(op *operation, in, n *node) error {
	kind := stepRemove
	if n.kind == listing.Folder {
		kind = stepRemoveFolder
		full, err := c.hasEntries(op.path, n)
		if err != nil {
			return err
		}
		if full {
			return conflicts(op.path, "the directory is not empty")
		}
	}
	slot, err := c.newSlot()
	if err != nil {
		return err
	}
	c.steps = append(c.steps, step{kind: kind, slot: slot, path: op.path, expected: n.onDisk})
	*n = node{freed: true}
	in.extra--
	return nil
}

// hasEntries reports whether a directory will have entries after the operations checked so far.
func (c *change) hasEntries(path string, n *node) (bool, error) {
	if n.staged {
		return n.extra > 0, nil
	}
	f, err := c.volume.openBeneath(path, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := namesIn(int(f.Fd()))
	return len(names)+n.extra > 0, err
}
