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

// A change applies several operations to a volume atomically; see PUT /volume/change in
// proto/agent/v1. It has these phases:
//
//  1. Stage the content in a directory of the volume (change_stage.go). New folders are staged
//     together with their content (change_place.go).
//  2. Check each operation against the tree as it will be after the previous operations. The result
//     is a list of steps (change_check.go). A step renames something or sets a mode.
//  3. Write the steps to a file and flush it. The name of this file is the state of the change.
//     Renaming the file to stateDecided commits the change.
//  4. Apply the steps in order. If one fails, undo all of them (change_step.go).
//  5. After a crash, the next open of the volume completes or undoes the change, depending on its
//     state (change_recover.go).

// The states of a change. Each is a name of the change's steps file. If the steps file does not
// exist, the change has not touched the tree.
const (
	statePlanned  = "planned"  // the steps are being written
	stateDecided  = "decided"  // the steps must be applied
	stateUndoing  = "undoing"  // the steps must be undone
	stateFinished = "finished" // the steps were applied or undone
)

// change is a change in progress.
type change struct {
	volume *Volume
	name   string // name of its directory in volume.pending
	dir    *os.File
	state  string // empty if the steps file does not exist yet

	operations    []operation
	names         int              // total length of all paths, in bytes.
	tree          map[string]*node // the tree as it will be after the operations checked so far.
	links         []hardLink       // hard links to stage.
	deferredModes []string         // directories that get their mode after all other steps.
	steps         []step
	edits         map[string]bool // paths that recovery leaves as they are.
	copied        map[string]bool // paths whose old file was copied. An undo puts the copy there.
	counts        Counts

	slots  slots
	parent openFolder        // parent directory of the last path
	places map[string]*place // staged folders by path; nil: its entries are staged in slots
	placed openFolder        // the place that was opened last
}

// Counts counts the effects of a change.
type Counts struct {
	Created, Replaced, Deleted int64 // files, directories and links. Merged directories do not count.
	Bytes                      int64 // of content
}

// Conflict is an error about an operation that does not fit the current tree.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// Invalid is an error about a request that no tree can satisfy.
type Invalid string

func (i Invalid) Error() string { return string(i) }

// OperationError is the error of one operation. Path is the path in this operation.
type OperationError struct {
	Path string
	Err  error
}

func (r *OperationError) Error() string { return fmt.Sprintf("%q: %v", r.Path, r.Err) }
func (r *OperationError) Unwrap() error { return r.Err }

func conflicts(path, format string, args ...any) error {
	return &OperationError{path, Conflict(fmt.Sprintf(format, args...))}
}

// Change applies a tar archive whose entries are operations; see PUT /volume/change in
// proto/agent/v1. If Change succeeds, the result is on disk. If it returns an error, nothing has
// changed. It returns an [OperationError] for an operation that can't be applied, and [Invalid] for
// an unreadable archive.
func (v *Volume) Change(ctx context.Context, archive io.Reader) (Counts, error) {
	c, err := v.newChange()
	if err != nil {
		return Counts{}, err
	}
	defer c.close()
	if err = c.stage(archive); err == nil {
		err = c.apply(ctx)
	}
	// Files that can't be removed now will be removed when the volume is opened again. They do not
	// affect the result.
	c.discard()
	if err != nil {
		return Counts{}, err
	}
	return c.counts, nil
}

// newChange creates the directory of a change.
func (v *Volume) newChange() (*change, error) {
	var random [8]byte
	rand.Read(random[:])
	c := &change{volume: v, name: hex.EncodeToString(random[:]), tree: map[string]*node{}, places: map[string]*place{}, copied: map[string]bool{}}
	if err := c.beforeWrite("make its folder"); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(int(v.pending.Fd()), c.name, 0o700); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: PendingFolder, Err: err}
	}
	return c, c.open()
}

func (c *change) open() error {
	fd, err := unix.Openat(int(c.volume.pending.Fd()), c.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: PendingFolder, Err: err}
	}
	c.dir = os.NewFile(uintptr(fd), c.name)
	return nil
}

// close closes the open files of the change. It does not touch the disk.
func (c *change) close() {
	c.slots.folder.leave()
	c.parent.leave()
	c.placed.leave()
	if c.dir != nil {
		c.dir.Close()
	}
}

// beforeWrite is called before each modification of the disk. Tests use it to inject errors and
// crashes.
func (c *change) beforeWrite(what string) error {
	if c.volume.hook == nil {
		return nil
	}
	return c.volume.hook(what)
}

// apply checks and applies the operations.
func (c *change) apply(ctx context.Context) error {
	release, err := c.volume.LockChanges(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.check(); err != nil {
		return err
	}
	if err = c.commit(); err == nil {
		err = c.complete(true)
	}
	if err == nil {
		return nil
	}
	if undone := c.rollback(); undone != nil {
		return errors.Join(err, undone)
	}
	return err
}

// commit writes the steps, flushes all staged files, and then commits the change.
func (c *change) commit() error {
	if err := c.write(); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.setState(stateDecided)
}

// complete applies the steps, flushes the tree and marks the change as finished. During recovery,
// live is false.
func (c *change) complete(live bool) error {
	if err := c.applySteps(live); err != nil {
		return err
	}
	return c.finish()
}

// rollback undoes the change. If rollback fails, the next open of the volume continues according to
// the change's state.
func (c *change) rollback() error {
	if c.state == "" || c.state == statePlanned {
		return nil
	}
	// If the change can't become undoing, it is undone all the same: later changes must find the
	// old tree, not a mixture. If the agent is then killed before the end of the undo, the next
	// open leaves a mixture. But recovery does nothing for a finished change, so its undo can't
	// begin.
	if err := c.setState(stateUndoing); err != nil && c.state == stateFinished {
		return fmt.Errorf("undo the change: %w", err)
	}
	return c.rollbackSteps()
}

func (c *change) rollbackSteps() error {
	err := c.undoSteps()
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return fmt.Errorf("undo the change: %w", err)
	}
	return nil
}

// finish flushes the tree and marks the change as finished.
func (c *change) finish() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.setState(stateFinished)
}

// setState renames the steps file to the name of a state, and flushes the rename.
func (c *change) setState(state string) error {
	if err := c.beforeWrite("become " + state); err != nil {
		return err
	}
	dir := int(c.dir.Fd())
	if err := unix.Renameat(dir, c.state, dir, state); err != nil {
		return &os.PathError{Op: "rename", Path: c.state, Err: err}
	}
	c.state = state
	if err := c.beforeWrite("flush the state " + state); err != nil {
		return err
	}
	return c.dir.Sync()
}

// flush flushes everything that the change has written. With PassthroughFS, all files are already
// flushed, so it is enough to flush the pending directory.
func (c *change) flush() error {
	if err := c.beforeWrite("flush"); err != nil {
		return err
	}
	if c.volume.fsKind == PassthroughFS {
		return c.volume.pending.Sync()
	}
	return c.volume.flush()
}

// discard removes staged files and replaced files. If the steps are not finished, they still need
// these files, so discard removes nothing. discard removes the steps file last.
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

// removeAll removes a directory entry and everything below it.
func (c *change) removeAll(dir int, name string) error {
	return removeTree(dir, name, name, func(dir int, name, _ string, flags int) error { return c.unlink(dir, name, flags) })
}

func (c *change) unlink(dir int, name string, flags int) error {
	if err := c.beforeWrite("remove " + name); err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, name, flags); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
