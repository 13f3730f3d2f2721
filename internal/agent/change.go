package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A change is several operations on a volume that are done all or not at all, whatever happens meanwhile (see PUT /volume/change in the proto).
//
// Its content is staged in a folder of its own in the volume (change_stage.go). The operations are checked one after the other against the tree as those before
// will have left it, which gives steps (change_check.go), each a rename or the setting of a mode. The steps are written down and flushed; by the name of that
// file, its state, the change is decided on. They are then done, one after the other; where one fails all are undone (change_step.go). What a crash leaves is
// found when the volume is opened again, and brought to its end by the state (change_recover.go): so the tree is the old one or the new one.

// The states of a change: names of the file that has its steps. Where there is none of them, nothing of the tree has been touched.
const (
	statePlanned  = "planned"  // it is being written
	stateDecided  = "decided"  // the steps are to be done
	stateUndoing  = "undoing"  // they are to be undone
	stateFinished = "finished" // they have been done, or undone
)

// change is one of them.
type change struct {
	volume *Volume
	name   string // of its folder, in volume.pending
	dir    *os.File
	state  string // "": it has no file of steps yet

	operations []operation
	names      int              // bytes of their paths
	tree       map[string]*node // what the operations so far have made of the tree
	links      []hardLink       // to be staged
	late       []string         // folders that get their modes when all else is done
	steps      []step
	begun      int // steps
	counts     changeCounts

	slots  slots
	parent openFolder // of what was looked at or done last
}

// changeCounts tell what a change did.
type changeCounts struct {
	created, replaced, deleted int64 // entries
	bytes                      int64 // of content
}

// conflict says what else is there than may be.
type conflict string

func (c conflict) Error() string { return string(c) }

// refusal is why a change can't be done: what stands against it, and where.
type refusal struct {
	path string
	err  error
}

func (r *refusal) Error() string { return fmt.Sprintf("%q: %v", r.path, r.err) }
func (r *refusal) Unwrap() error { return r.err }

func conflicts(path, format string, args ...any) error {
	return &refusal{path, conflict(fmt.Sprintf(format, args...))}
}

// change does what a tar archive says. It is on the disk then; with an error nothing has been changed.
func (v *Volume) change(ctx context.Context, archive io.Reader) (changeCounts, error) {
	c, err := v.newChange()
	if err != nil {
		return changeCounts{}, err
	}
	defer c.close()
	if err = c.stage(archive); err == nil {
		err = c.apply(ctx)
	}
	// What can't be removed now is when the volume is opened the next time: it has no say in what became of the change.
	c.discard()
	if err != nil {
		return changeCounts{}, err
	}
	return c.counts, nil
}

// newChange makes the folder of a change.
func (v *Volume) newChange() (*change, error) {
	var random [8]byte
	rand.Read(random[:])
	c := &change{volume: v, name: hex.EncodeToString(random[:]), tree: map[string]*node{}}
	if err := c.does("make its folder"); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(int(v.pending.Fd()), c.name, 0o700); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: pendingFolder, Err: err}
	}
	return c, c.open()
}

func (c *change) open() error {
	fd, err := unix.Openat(int(c.volume.pending.Fd()), c.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: pendingFolder, Err: err}
	}
	c.dir = os.NewFile(uintptr(fd), c.name)
	return nil
}

// close gives back what is open, and touches nothing on the disk.
func (c *change) close() {
	c.slots.folder.leave()
	c.parent.leave()
	if c.dir != nil {
		c.dir.Close()
	}
}

// does is called before everything that changes something on the disk. Tests have it fail, or stop there.
func (c *change) does(what string) error {
	if c.volume.hook == nil {
		return nil
	}
	return c.volume.hook(what)
}

// apply checks the operations and does them.
func (c *change) apply(ctx context.Context) error {
	release, err := c.volume.Still(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.check(); err != nil {
		return err
	}
	if err = c.decide(); err == nil {
		err = c.complete(true)
	}
	if err == nil {
		return nil
	}
	if undone := c.takeBack(); undone != nil {
		return errors.Join(err, undone)
	}
	return err
}

// decide writes down the steps, has all that is staged on the disk, and then the decision.
func (c *change) decide() error {
	if err := c.write(); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.become(stateDecided)
}

// complete does the steps, has the tree on the disk, and then that nothing is left to be done. live: for the first time.
func (c *change) complete(live bool) error {
	if err := c.forward(live); err != nil {
		return err
	}
	return c.settle()
}

// takeBack undoes what has been done. Where that fails, the state says what is still to be done when the volume is opened the next time.
func (c *change) takeBack() error {
	if c.state == "" || c.state == statePlanned {
		return nil
	}
	// From here on a crash undoes it too. Where that can't be written down, it depends: what has not been finished would be completed, which is as good.
	if err := c.become(stateUndoing); err != nil && c.state == stateFinished {
		return fmt.Errorf("undo the change: %w", err)
	}
	return c.takeBackRest()
}

func (c *change) takeBackRest() error {
	err := c.backward()
	if err == nil {
		err = c.settle()
	}
	if err != nil {
		return fmt.Errorf("undo the change: %w", err)
	}
	return nil
}

// settle has the tree on the disk, and then that nothing is left to be done.
func (c *change) settle() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.become(stateFinished)
}

// become changes the state, on the disk.
func (c *change) become(state string) error {
	if err := c.does("become " + state); err != nil {
		return err
	}
	dir := int(c.dir.Fd())
	if err := unix.Renameat(dir, c.state, dir, state); err != nil {
		return &os.PathError{Op: "rename", Path: c.state, Err: err}
	}
	c.state = state
	if err := c.does("flush the state " + state); err != nil {
		return err
	}
	return c.dir.Sync()
}

// flush has all that the change has done on the disk. Where files are flushed by themselves, they have been.
func (c *change) flush() error {
	if err := c.does("flush"); err != nil {
		return err
	}
	if c.volume.reach == Single {
		return c.volume.pending.Sync()
	}
	return c.volume.flush()
}

// discard removes what was staged and what was put aside, unless there is still something to be done with it. The state goes last.
func (c *change) discard() error {
	if c.state == stateDecided || c.state == stateUndoing {
		return nil
	}
	dir := int(c.dir.Fd())
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != c.state {
			err = errors.Join(err, c.removeAll(dir, name))
		}
	}
	if c.state != "" && err == nil {
		err = c.unlink(dir, c.state, 0)
	}
	if err == nil {
		err = c.unlink(int(c.volume.pending.Fd()), c.name, unix.AT_REMOVEDIR)
	}
	return err
}

// removeAll removes something in a folder, with all below it.
func (c *change) removeAll(dir int, name string) error {
	err := c.unlink(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	names, err := namesIn(fd)
	for _, below := range names {
		err = errors.Join(err, c.removeAll(fd, below))
	}
	unix.Close(fd)
	if err != nil {
		return err
	}
	return c.unlink(dir, name, unix.AT_REMOVEDIR)
}

func (c *change) unlink(dir int, name string, flags int) error {
	if err := c.does("remove " + name); err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, name, flags); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
