package volume

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

// A change applies several operations to a volume, all or none (see PUT /volume/change in the proto):
//
//  1. Its content is staged in a folder of its own in the volume (change_stage.go).
//  2. Each operation is checked against the tree that the operations before it will leave. That
//     gives steps (change_check.go): each renames something or sets a mode.
//  3. The steps are written to a file and flushed. Renaming that file, whose name is the state,
//     decides on the change.
//  4. The steps are done in order. If one fails, all are undone (change_step.go).
//  5. After a crash, opening the volume finishes or undoes the change by its state
//     (change_recover.go).

// The states of a change: names of the file that has its steps. Without such a file, nothing of the
// tree has been touched.
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
	counts     Counts

	slots  slots
	parent openFolder // of what was looked at or done last
}

// Counts tell what a change did.
type Counts struct {
	Created, Replaced, Deleted int64 // entries
	Bytes                      int64 // of content
}

// Conflict says why the tree does not allow an operation.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// Invalid is the error for a request that no tree could satisfy.
type Invalid string

func (i Invalid) Error() string { return string(i) }

// Refusal is why a change can't be done, and the path of the operation that failed.
type Refusal struct {
	Path string
	Err  error
}

func (r *Refusal) Error() string { return fmt.Sprintf("%q: %v", r.Path, r.Err) }
func (r *Refusal) Unwrap() error { return r.Err }

func conflicts(path, format string, args ...any) error {
	return &Refusal{path, Conflict(fmt.Sprintf(format, args...))}
}

// Change applies a tar archive whose entries are operations, as PUT /volume/change in proto/agent/v1 has them. The result is on
// the disk when it returns; with an error nothing has changed. Errors: [Refusal] with the path of the operation that can't be done, [Invalid] if the
// archive can't be read.
func (v *Volume) Change(ctx context.Context, archive io.Reader) (Counts, error) {
	c, err := v.newChange()
	if err != nil {
		return Counts{}, err
	}
	defer c.close()
	if err = c.stage(archive); err == nil {
		err = c.apply(ctx)
	}
	// What can't be removed now is when the volume is opened the next time: it has no say in what became of the change.
	c.discard()
	if err != nil {
		return Counts{}, err
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
