package volume

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// putFolder creates a directory. If the directory exists, putFolder sets only its mode, unless the
// operation keeps the mode.
func (c *change) putFolder(op *operation, in, n *node) error {
	switch {
	case n.kind == 0:
		return c.makeFolder(op.path, in, n, op.mode)
	case n.kind != listing.Folder:
		return conflicts(op.path, "it exists and is not a directory")
	case op.keep:
		return nil
	}
	return c.changeMode(op, n)
}

// put adds the step that moves the staged file of an operation into place.
func (c *change) put(op *operation, in, n *node, made node) error {
	if n.kind == listing.Folder {
		return conflicts(op.path, "it is a directory")
	}
	s := step{kind: stepReplace, slot: op.slot, path: op.path, expected: n.onDisk}
	if n.kind == 0 {
		s.kind = stepCreate
		in.extra++
	}
	if op.place != nil {
		s.kind, s.top = stepPlaced, op.place.top().slot
	}
	*n = made
	n.staged, n.slot, n.within, n.onDisk = true, op.slot, op.place, nil
	c.steps = append(c.steps, s)
	return nil
}

// keep sets the mode and owner of the existing file on the staged file. If it can't set the owner,
// it drops the set-user-ID, set-group-ID and sticky bits.
func (c *change) keep(op *operation, n, made *node) error {
	dir, err := c.slotFolder(op.slot)
	if err != nil {
		return err
	}
	if err := c.beforeWrite("keep its owner"); err != nil {
		return err
	}
	made.mode = n.mode
	if err := unix.Fchownat(dir, stagedName(op.slot), n.owner.uid, n.owner.gid, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		made.owner = n.owner
	} else {
		made.mode &= 0o777 // the owner differs, so drop the set-id bits
	}
	if err := c.beforeWrite("keep its mode"); err != nil {
		return err
	}
	return unix.Fchmodat(dir, stagedName(op.slot), made.mode, 0)
}

// hardLink is a hard link to stage. Its target is a staged file or an existing file of the
// workspace.
type hardLink struct {
	slot   uint32
	path   string // path of the link
	staged bool
	from   uint32 // slot of the target, if it is staged
	within *place // the place that contains the target; nil if there is none
	to     string // path of the target
}

// target checks the target of a hard link and allocates a slot for the link.
func (c *change) target(op *operation) (node, error) {
	in, err := c.folderOf(op.target, false)
	if errors.As(err, new(Conflict)) {
		return node{}, conflicts(op.path, "its target %v", err)
	}
	if err != nil {
		return node{}, err
	}
	n, err := c.lookUp(op.target, in)
	if err != nil {
		return node{}, err
	}
	switch n.kind {
	case 0:
		return node{}, conflicts(op.path, "its target %q does not exist", op.target)
	case listing.Folder:
		return node{}, conflicts(op.path, "its target %q is a directory", op.target)
	}
	if op.slot, err = c.newSlot(); err != nil {
		return node{}, err
	}
	c.links = append(c.links, hardLink{slot: op.slot, path: op.path, staged: n.staged, from: n.slot, within: n.within, to: op.target})
	return *n, nil
}

// stageLinks creates the hard links in the staging area. A new link changes its target, so
// stageLinks runs after all checks.
func (c *change) stageLinks() error {
	for _, l := range c.links {
		if err := c.stageLink(l); err != nil {
			if treeModified(err) {
				err = errModified
			}
			return &OperationError{l.path, err}
		}
	}
	return nil
}

func (c *change) stageLink(l hardLink) error {
	from, name := int(c.dir.Fd()), folderOf(l.from)+"/"+stagedName(l.from)
	var err error
	switch {
	case l.within != nil:
		_, name = parentOf(l.to)
		from, err = c.openPlace(l.within)
	case !l.staged:
		from, name, err = c.parentFolder(l.to)
	}
	if err != nil {
		return err
	}
	dir, err := c.slotFolder(l.slot)
	if err != nil {
		return err
	}
	if err := c.beforeWrite("stage a hard link"); err != nil {
		return err
	}
	return unix.Linkat(from, name, dir, stagedName(l.slot), 0)
}
