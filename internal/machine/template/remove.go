package template

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Reject removes a template that does not work. Machines that use it have its files open.
// Idempotent.
func (s Store) Reject(key Key) error {
	if _, err := os.Stat(filepath.Join(s.Dir, key.Hash())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Try(filepath.Join(s.Dir, key.Hash()+".lock"), flock.Exclusive)
	if err != nil {
		return ignoreHeld(err) // another process is already making the template again
	}
	defer building.Release()
	return fault.Wrap(os.RemoveAll(filepath.Join(s.Dir, key.Hash())), "remove template", key.Hash())
}

// Retire removes a template. It waits for processes that make or use the template, until ctx is
// done. Idempotent.
func (s Store) Retire(ctx context.Context, key Key) error {
	return s.discard(ctx, key, func(dir string) error {
		using, err := flock.TakeFolder(ctx, dir, flock.Exclusive)
		if err != nil {
			return err
		}
		defer using.Release()
		return os.RemoveAll(dir)
	})
}

// Detach removes the template for a key, so that the next Build makes a new one. Machines that use
// the old template still have all of its files. Prune removes these files later. Idempotent.
func (s Store) Detach(ctx context.Context, key Key) error {
	return s.discard(ctx, key, func(dir string) error {
		using, err := flock.TryFolder(dir, flock.Exclusive)
		if errors.Is(err, flock.ErrHeld) {
			return os.Rename(dir, dir+detached+rand.Text()) // the rename does not affect the locks
		}
		if err != nil {
			return err
		}
		defer using.Release()
		return os.RemoveAll(dir)
	})
}

// discard calls the function remove with the folder of a template, while no process makes the
// template. It waits for such a process until ctx is done. A missing template is no error.
func (s Store) discard(ctx context.Context, key Key, remove func(dir string) error) error {
	name := key.Hash()
	dir := filepath.Join(s.Dir, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	building, err := flock.Take(ctx, filepath.Join(s.Dir, name+".lock"), flock.Exclusive, nil)
	if err != nil {
		return fault.Wrap(err, "remove template", name)
	}
	defer building.Release()
	if err := remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, "remove template", name)
	}
	return nil
}

// detached is part of the names of templates that Detach has renamed because they were in use.
const detached = ".old-"

// Prune removes templates for which the function keep returns false, unless a machine uses them. It
// also removes the leftovers of interrupted builds. It returns the removed templates.
func (s Store) Prune(keep func(Info) bool) ([]Info, error) {
	infos, err := s.List()
	if err != nil {
		return nil, err
	}
	var removed []Info
	for _, info := range infos {
		if keep(info) {
			continue
		}
		gone, err := s.remove(info.Name)
		if err != nil {
			return removed, fault.Wrap(err, "remove template", info.Name)
		}
		if gone {
			removed = append(removed, info)
		}
	}
	return removed, errors.Join(s.sweep(), s.sweepDetached())
}

// remove removes a template unless a process uses or makes it. A process must have the build lock
// of a template to change the template's folder.
func (s Store) remove(name string) (bool, error) {
	building, err := flock.Try(filepath.Join(s.Dir, name+".lock"), flock.Exclusive)
	if err != nil {
		return false, ignoreHeld(err)
	}
	defer building.Release()
	using, err := flock.TryFolder(filepath.Join(s.Dir, name), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another process has already removed the template
	}
	if err != nil {
		return false, ignoreHeld(err)
	}
	defer using.Release()
	return true, os.RemoveAll(filepath.Join(s.Dir, name))
}

func ignoreHeld(err error) error {
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	return err
}

// sweep removes the leftovers of crashed builds.
func (s Store) sweep() error {
	locks, err := filepath.Glob(filepath.Join(s.Dir, "*.lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := flock.Try(path, flock.Exclusive)
		if err != nil {
			continue // the build is still running
		}
		err = errors.Join(os.RemoveAll(strings.TrimSuffix(path, ".lock")+".part"), os.Remove(path))
		lock.Release()
		if err != nil {
			return fault.Wrap(err, "remove unfinished template", path)
		}
	}
	return nil
}

// sweepDetached removes the detached templates that are no longer in use.
func (s Store) sweepDetached() error {
	old, err := filepath.Glob(filepath.Join(s.Dir, "*"+detached+"*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		using, err := flock.TryFolder(dir, flock.Exclusive)
		if err != nil {
			continue // the template is in use, or another process has removed it
		}
		err = os.RemoveAll(dir)
		using.Release()
		if err != nil {
			return fault.Wrap(err, "remove template", dir)
		}
	}
	return nil
}
