package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// node is what is at a path, as the operations so far will have left it.
type node struct {
	kind  listing.Kind // 0: nothing
	own   bool         // it is what this change has staged, in a slot
	slot  uint32
	mode  uint32
	owner owner
	want  uint32 // of a folder of the change's own: the mode that it has in the end
	extra int    // of a folder: how much more is in it than on the disk; where it is the change's own, all that is in it
	was   *stat  // of what is on the disk
}

// owner is whose something is.
type owner struct{ uid, gid int }

// stat is what a step is sure to find where it replaces or removes something: else somebody was there meanwhile.
type stat struct {
	inode   uint64
	size    int64
	modTime unix.Timespec
}

func statOf(st *unix.Stat_t) *stat { return &stat{st.Ino, st.Size, st.Mtim} }

// check checks the operations, one after the other, and makes them steps.
func (c *change) check() error {
	c.tree[""] = &node{kind: listing.Folder}
	for i := range c.operations {
		op := &c.operations[i]
		if err := c.expected(op); err != nil {
			return err
		}
		if err := c.checked(op); err != nil {
			if r := (*Refusal)(nil); errors.As(err, &r) {
				err = r.Err
			}
			return &Refusal{op.path, err}
		}
	}
	if err := c.closeFolders(); err != nil {
		return err
	}
	return c.stageLinks()
}

// closeFolders has the change's own folders get their modes, once there is nothing more to be put into them: it may be one that forbids that.
func (c *change) closeFolders() error {
	for _, path := range c.late {
		n := c.tree[path]
		if n.kind != listing.Folder || !n.own || n.mode == n.want {
			continue
		}
		if err := c.setMode(path, n, n.want); err != nil {
			return err
		}
	}
	return nil
}

// expected checks what an operation wants to have been there before the change.
func (c *change) expected(op *operation) error {
	if op.expect == nil && !op.absent {
		return nil
	}
	st, err := c.onDisk(op.path)
	switch {
	case err == errNothing && op.absent:
		return nil
	case err == errNothing:
		return conflicts(op.path, "it is not there any more")
	case err != nil:
		return err
	case op.absent:
		return conflicts(op.path, "it is there already")
	case *op.expect != (listing.Mark{Inode: st.Ino, Size: st.Size, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: st.Mode & 0o7777}):
		return conflicts(op.path, "it has changed")
	}
	return nil
}

// onDisk looks at a path on the disk; errNothing: there is nothing.
func (c *change) onDisk(path string) (st unix.Stat_t, err error) {
	dir, last, err := c.parentFolder(path)
	if err != nil {
		if missing(err) {
			err = errNothing
		}
		return st, err
	}
	return there(dir, last)
}

// look gives what is at a path, all that is above which must have been looked at.
func (c *change) look(path string, in *node) (*node, error) {
	if n := c.tree[path]; n != nil {
		return n, nil
	}
	n := &node{}
	if !in.own {
		st, err := c.onDisk(path)
		switch {
		case err == nil:
			n.kind, n.mode, n.owner, n.was = kindOf(st.Mode), st.Mode&0o7777, owner{int(st.Uid), int(st.Gid)}, statOf(&st)
		case err != errNothing:
			return nil, err
		}
	}
	c.tree[path] = n
	return n, nil
}

// folderOf gives the folder that a path is in. Missing ones are made where that is wanted.
func (c *change) folderOf(path string, makeIt bool) (*node, error) {
	above, _ := parentOf(path)
	if n := c.tree[above]; n != nil && n.kind == listing.Folder {
		return n, nil
	}
	in, err := c.folderOf(above, makeIt)
	if err != nil {
		return nil, err
	}
	n, err := c.look(above, in)
	switch {
	case err != nil:
		return nil, err
	case n.kind == listing.Folder:
		return n, nil
	case n.kind != 0:
		return nil, conflicts(path, "%q, above it, is no folder", above)
	case !makeIt:
		return nil, conflicts(path, "it is not there")
	}
	return n, c.makeFolder(above, in, n, 0o755)
}

// makeFolder stages a folder for a path where there is nothing. Its owner may work in it until all is in its place.
func (c *change) makeFolder(path string, in, n *node, mode uint32) error {
	slot, dir, err := c.newSlot()
	if err != nil {
		return err
	}
	if err := c.does("stage a folder"); err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, staged(slot), 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	if err := c.does("set its mode"); err != nil {
		return err
	}
	if err := unix.Fchmodat(dir, staged(slot), mode|0o700, 0); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	*n = node{kind: listing.Folder, own: true, slot: slot, mode: mode | 0o700, want: mode}
	if n.mode != n.want {
		c.late = append(c.late, path)
	}
	in.extra++
	c.steps = append(c.steps, step{kind: stepMakeFolder, slot: slot, path: path})
	return nil
}

// checked checks one operation and adds its steps.
func (c *change) checked(op *operation) error {
	puts := op.verb != removeIt && op.verb != setMode
	in, err := c.folderOf(op.path, puts)
	if err != nil {
		return err
	}
	n, err := c.look(op.path, in)
	if err != nil {
		return err
	}
	if n.kind == 0 && !puts {
		return conflicts(op.path, "it is not there")
	}
	switch {
	case op.verb == removeIt:
		c.counts.Deleted++
	case n.kind == 0:
		c.counts.Created++
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

// changeMode sets the mode of what is there.
func (c *change) changeMode(op *operation, n *node) error {
	switch {
	case n.kind == listing.Folder && n.own:
		n.want = op.mode
		c.late = append(c.late, op.path)
		return nil
	case n.kind == listing.Folder || n.kind == listing.File:
		return c.setMode(op.path, n, op.mode)
	}
	return conflicts(op.path, "only files and folders have a mode that can be set")
}

func (c *change) setMode(path string, n *node, mode uint32) error {
	if mode == n.mode {
		return nil
	}
	slot, dir, err := c.newSlot()
	if err != nil {
		return err
	}
	// A mark of what is still to be done.
	if err := c.does("mark what gets a mode"); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, staged(slot), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	c.steps = append(c.steps, step{kind: stepMode, slot: slot, path: path, mode: mode, before: n.mode, was: n.was})
	n.mode = mode
	return nil
}

// remove removes what is there.
func (c *change) remove(op *operation, in, n *node) error {
	kind := stepRemove
	if n.kind == listing.Folder {
		kind = stepRemoveFolder
		full, err := c.full(op.path, n)
		if err != nil {
			return err
		}
		if full {
			return conflicts(op.path, "the folder is not empty")
		}
	}
	slot, _, err := c.newSlot()
	if err != nil {
		return err
	}
	c.steps = append(c.steps, step{kind: kind, slot: slot, path: op.path, was: n.was})
	*n = node{}
	in.extra--
	return nil
}

// full tells whether a folder will have something in it.
func (c *change) full(path string, n *node) (bool, error) {
	if n.own {
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
