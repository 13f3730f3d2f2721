package volume

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

// place is a new folder that a change stages together with its content. Then one step moves the
// whole folder to its path, and its files and folders need no move of their own.
//
// Places are made while the archive is read, before anything is checked. So a place is only a
// guess: the check uses it if the folder is new, and otherwise takes the entries out of it. A place
// that the check itself makes stays empty.
type place struct {
	slot   uint32
	in     *place // the place that contains the folder; nil: the folder is in its slot.
	depth  int    // number of places that contain it.
	name   string // last component of its path.
	mode   uint32 // its final mode.
	used   bool   // a step moves the folder, or another program has created its path.
	closed bool   // an operation removes the folder. Later entries do not belong to it.
}

const (
	// maxPlace is the maximum length of the path of a folder that is staged in another one. It
	// leaves space for the path of the slot.
	maxPlace = listing.MaxPath - 64
	// maxDepth is the maximum depth of a place. A deeper folder is staged in its own slot and has a
	// move of its own. The removal of staged folders needs a descriptor for each level.
	maxDepth = 32
)

// top returns the place that contains p and is itself in a slot.
func (p *place) top() *place {
	for p.in != nil {
		p = p.in
	}
	return p
}

// path returns the path of the folder, relative to the folder of slots.
func (p *place) path() string {
	if p.in == nil {
		return stagedName(p.slot)
	}
	return p.in.path() + "/" + p.name
}

// place returns the place of a folder, or nil if its entries must be staged in slots. It makes the
// place if the folder does not exist.
func (c *change) place(path string, mode uint32) (*place, error) {
	if path == "" {
		return nil, nil
	}
	if p, known := c.places[path]; known {
		return p, nil
	}
	above, name := parentOf(path)
	in, err := c.place(above, defaultFolderMode)
	if err != nil {
		return nil, err
	}
	c.places[path] = nil
	if in == nil {
		// If there is another error, the check reports it later.
		if _, err := c.onDisk(path); err != errNoEntry {
			return nil, nil
		}
	} else if in.closed || len(path) > maxPlace {
		return nil, nil
	}
	p := &place{name: name, mode: mode}
	if in != nil && in.depth < maxDepth {
		p.in, p.depth = in, in.depth+1
	}
	switch err := c.makePlace(p); err {
	case nil:
		c.places[path] = p
		return p, nil
	case unix.EEXIST:
		return nil, nil
	default:
		return nil, err
	}
}

// makePlace makes the folder of a place. Its owner gets full access in addition to its mode. If
// another entry has its name, makePlace returns [unix.EEXIST].
func (c *change) makePlace(p *place) (err error) {
	if p.slot, err = c.newSlot(); err != nil {
		return err
	}
	var dir int
	name := stagedName(p.slot)
	if p.in == nil {
		dir, err = c.slotFolder(p.slot)
	} else {
		dir, err = c.openPlace(p.in)
		name = p.name
	}
	if err != nil {
		return err
	}
	if err := c.beforeWrite("stage a folder"); err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	if err := c.beforeWrite("set its mode"); err != nil {
		return err
	}
	return unix.Fchmodat(dir, name, p.mode|0o700, 0)
}

// openPlace opens the folder of a place. The descriptor is valid until the next call.
func (c *change) openPlace(p *place) (dir int, err error) {
	return c.placed.enter(strconv.FormatUint(uint64(p.slot), 10), func() (int, error) {
		top := p.top().slot
		slots, err := c.slotFolder(top)
		if err != nil {
			return -1, err
		}
		return openBelow(slots, p.path(), unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	})
}

// takeOut moves a folder from the place that contains it to its slot.
func (c *change) takeOut(p *place) error {
	if err := c.toSlot(p.in, p.name, p.slot); err != nil {
		return err
	}
	p.in, p.depth = nil, 0
	return nil
}

// toSlot moves an entry from a place to a slot.
func (c *change) toSlot(from *place, name string, slot uint32) error {
	dir, err := c.openPlace(from)
	if err != nil {
		return err
	}
	to, err := c.slotFolder(slot)
	if err != nil {
		return err
	}
	return c.move(dir, name, to, stagedName(slot))
}
