package volume

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// putFolder puts a folder where there is nothing, or where there is one.
func (c *change) putFolder(op *operation, in, n *node) error {
	switch {
	case n.kind == 0:
		return c.makeFolder(op.path, in, n, op.mode)
	case n.kind != listing.Folder:
		return conflicts(op.path, "it is there, and no folder")
	case op.keep:
		return nil
	}
	return c.changeMode(op, n)
}

// put puts what is staged for an operation in its place.
func (c *change) put(op *operation, in, n *node, made node) error {
	if n.kind == listing.Folder {
		return conflicts(op.path, "it is a folder")
	}
	s := step{kind: stepReplace, slot: op.slot, path: op.path, was: n.was}
	if n.kind == 0 {
		s.kind = stepCreate
		in.extra++
	}
	*n = made
	n.own, n.slot, n.was = true, op.slot, nil
	c.steps = append(c.steps, s)
	return nil
}

// keep gives what is staged for an operation the mode and the owner of the file that is there.
func (c *change) keep(op *operation, n, made *node) error {
	dir, err := c.slotFolder(op.slot)
	if err != nil {
		return err
	}
	if err := c.does("keep its owner"); err != nil {
		return err
	}
	made.mode = n.mode
	if err := unix.Fchownat(dir, staged(op.slot), n.owner.uid, n.owner.gid, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		made.owner = n.owner
	} else {
		made.mode &= 0o777 // it is another's now: it must not run as its owner
	}
	if err := c.does("keep its mode"); err != nil {
		return err
	}
	return unix.Fchmodat(dir, staged(op.slot), made.mode, 0)
}

// hardLink is a link to stage, to what is in a slot or in the workspace.
type hardLink struct {
	slot uint32
	path string // that is put
	own  bool
	from uint32 // the slot of what it is linked to
	to   string // the path of what it is linked to
}

// target gives what a hard link is to be, and a slot for it.
func (c *change) target(op *operation) (node, error) {
	in, err := c.folderOf(op.target, false)
	if errors.As(err, new(Conflict)) {
		return node{}, conflicts(op.path, "its target %v", err)
	}
	if err != nil {
		return node{}, err
	}
	n, err := c.look(op.target, in)
	if err != nil {
		return node{}, err
	}
	switch n.kind {
	case 0:
		return node{}, conflicts(op.path, "its target %q is not there", op.target)
	case listing.Folder:
		return node{}, conflicts(op.path, "its target %q is a folder", op.target)
	}
	if op.slot, _, err = c.newSlot(); err != nil {
		return node{}, err
	}
	c.links = append(c.links, hardLink{slot: op.slot, path: op.path, own: n.own, from: n.slot, to: op.target})
	return *n, nil
}

// stageLinks stages the hard links. What is linked to is touched by that, so it is done once nothing stands against the change.
func (c *change) stageLinks() error {
	for _, l := range c.links {
		if err := c.stageLink(l); err != nil {
			if elsewise(err) {
				err = errMeanwhile
			}
			return &Refusal{l.path, err}
		}
	}
	return nil
}

func (c *change) stageLink(l hardLink) error {
	from, name, err := int(c.dir.Fd()), folderOf(l.from)+"/"+staged(l.from), error(nil)
	if !l.own {
		if from, name, err = c.parentFolder(l.to); err != nil {
			return err
		}
	}
	dir, err := c.slotFolder(l.slot)
	if err != nil {
		return err
	}
	if err := c.does("stage a hard link"); err != nil {
		return err
	}
	return unix.Linkat(from, name, dir, staged(l.slot), 0)
}
