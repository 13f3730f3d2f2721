package tree

import (
	"slices"

	"golang.org/x/sys/unix"
)

// crumb is a folder of a copy, by the names that lead to it.
type crumb struct {
	above *crumb // of the top: nil
	name  string
}

// links are the files of a tree of whose several names some have not been met.
type links map[identity]*linked

type linked struct {
	folder *crumb
	name   string // the first, in the copy
	left   uint64 // names that have not been met
}

// met remembers what has been copied and has further names.
func (c *copier) met(name string, st *unix.Stat_t) {
	if st.Nlink > 1 {
		c.links[identityOf(st)] = &linked{c.crumb, name, uint64(st.Nlink) - 1}
	}
}

// link makes a name in the copy's folder a further name of what has been copied already, and tells whether it has.
func (c *copier) link(name string, st *unix.Stat_t) (done bool, err error) {
	first := c.links[identityOf(st)]
	if first == nil {
		return false, nil
	}
	var names []string
	for at := first.folder; at.above != nil; at = at.above {
		names = append(names, at.name)
	}
	slices.Reverse(names)
	folder, err := descend(c.at.steps[0].fd, names)
	if err != nil {
		return false, err
	}
	defer unix.Close(folder)
	if err := unix.Linkat(folder, first.name, c.at.fd(), name, 0); err != nil {
		return false, err
	}
	c.stats.Links++
	if first.left--; first.left == 0 {
		delete(c.links, identityOf(st))
	}
	return true, nil
}

// descend opens the folder to which names lead from an open one, to get on from there. It follows no links.
func descend(top int, names []string) (int, error) {
	at, err := openAt(top, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	for _, name := range names {
		if err != nil {
			break
		}
		above := at
		at, err = openAt(above, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(above)
	}
	return at, err
}
