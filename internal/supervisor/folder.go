package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// unlocked is the prefix of folders that are not locked yet.
const unlocked = ".new-"

// folder is the folder of one machine. The machine's owner locks it.
type folder struct {
	path string
	lock *flock.Lock
}

func newFolder(machines, id string) (*folder, error) {
	path := filepath.Join(machines, id)
	if err := os.MkdirAll(machines, 0o700); err != nil {
		return nil, fault.Wrap(err, "make folder of machines", machines)
	}
	// The folder is locked before it gets its final name. Otherwise another process could mistake
	// it for the folder of a dead owner.
	staged, err := os.MkdirTemp(machines, unlocked)
	if err != nil {
		return nil, fault.Wrap(err, "make folder of machine", id)
	}
	lock, err := flock.TryFolder(staged, flock.Exclusive)
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		os.Remove(staged)
		lock.Release()
		return nil, fault.Wrap(err, "make folder of machine", id)
	}
	return &folder{path, lock}, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	f.lock.Release()
	return fault.Wrap(err, "remove folder of machine", f.path)
}

// folder creates the machine's folder. It returns the folder and the machine's ID.
func (cfg Config) folder() (*folder, string, error) {
	if cfg.Persistent == nil {
		id := NewID()
		f, err := newFolder(cfg.Dirs.Machines(), id)
		return f, id, err
	}
	path := cfg.Persistent.Folder
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)); err != nil {
		return nil, "", fault.Wrap(err, "make folder of machine", cfg.Persistent.ID)
	}
	return &folder{path: path}, cfg.Persistent.ID, nil
}

// Dead returns the folders of machines whose owners have died.
func Dead(d dirs.Dirs) (paths []string, err error) {
	entries, err := os.ReadDir(d.Machines())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(err, "look for dead machines", d.Machines())
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || strings.HasPrefix(e.Name(), unlocked) && time.Since(info.ModTime()) < time.Minute {
			continue // its owner is about to lock it, or the folder no longer exists
		}
		path := filepath.Join(d.Machines(), e.Name())
		if held, err := flock.Held(path); err == nil && !held {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Sweep removes the folders of machines whose owners have died. It returns the number of removed
// folders. Processes need no cleanup: the kernel kills a machine's processes when their owner dies.
func Sweep(d dirs.Dirs) (int, error) {
	dead, err := Dead(d)
	swept := 0
	for _, path := range dead {
		lock, err := flock.TryFolder(path, flock.Exclusive)
		if err != nil {
			continue // its owner lives, or the folder no longer exists
		}
		err = os.RemoveAll(path)
		lock.Release()
		if err != nil {
			return swept, fault.Wrap(err, "remove folder of machine", path)
		}
		swept++
	}
	return swept, err
}
