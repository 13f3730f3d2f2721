package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// recover completes or undoes the changes that a crash has interrupted. It also removes leftovers
// of finished changes.
func (v *Volume) recover() (Recovered, error) {
	var r Recovered
	names, err := namesIn(int(v.pending.Fd()))
	if err != nil {
		return r, &os.PathError{Op: "read", Path: PendingFolder, Err: err}
	}
	for _, name := range names {
		if err := v.recoverChange(name, &r); err != nil {
			return r, fmt.Errorf("recover a change: %w", err)
		}
	}
	return r, nil
}

func (v *Volume) recoverChange(name string, r *Recovered) error {
	c := &change{volume: v, name: name, edits: map[string]bool{}, copied: map[string]bool{}}
	defer c.close()
	if err := c.open(); errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) { // a file that was being written
		r.Undone++
		return c.unlink(int(v.pending.Fd()), name, 0)
	} else if err != nil {
		return err
	}
	if err := c.findState(); err != nil {
		return err
	}
	switch c.state {
	case stateFinished:
	case stateDecided:
		if err := c.read(); err != nil {
			return err
		}
		err := c.complete(false)
		if err == nil {
			r.Completed++
			break
		}
		// Another program has modified the tree after the crash. In this case, undo the change
		// instead.
		if undone := c.rollback(); undone != nil {
			return errors.Join(err, undone)
		}
		r.Undone++
	case stateUndoing:
		if err := c.read(); err != nil {
			return err
		}
		if err := c.rollbackSteps(); err != nil {
			return err
		}
		r.Undone++
	default:
		// An empty directory does not count as undone, because it can also be a leftover of a
		// finished change.
		names, err := namesIn(int(c.dir.Fd()))
		if err != nil {
			return err
		}
		r.Undone += min(len(names), 1)
	}
	return c.discard()
}

// findState finds the steps file. The name of that file is the state of the change.
func (c *change) findState() error {
	for _, state := range []string{stateFinished, stateUndoing, stateDecided, statePlanned} {
		if found, err := existsAt(int(c.dir.Fd()), state); err != nil {
			return err
		} else if found {
			c.state = state
			return nil
		}
	}
	return nil
}

// read reads the steps from the steps file.
func (c *change) read() error {
	fd, err := unix.Openat(int(c.dir.Fd()), c.state, unix.O_RDONLY|unix.O_NOFOLLOW|readFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.state, Err: err}
	}
	f, err := onlyRegular(os.NewFile(uintptr(fd), c.state))
	if err != nil {
		return err
	}
	defer f.Close()
	c.steps, err = readSteps(f)
	return err
}
