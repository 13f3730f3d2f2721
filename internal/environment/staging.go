package environment

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/environment/debian"
	"github.com/pyro-mcp/pyro/internal/flock"
)

const stagingPrefix = "staging-"

// staging is a directory for unfinished work. The process holds the directory's lock while it
// lives. Close removes the directory.
type staging struct {
	dir  string
	lock *flock.Lock
}

// newStaging creates a staging directory. It also removes abandoned staging directories.
func newStaging(parent string) (*staging, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	if _, err := sweep(parent); err != nil {
		return nil, err
	}
	for {
		dir := filepath.Join(parent, stagingPrefix+strings.ToLower(rand.Text()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		lock, err := flock.Try(filepath.Join(dir, "lock"), flock.Exclusive)
		if errors.Is(err, flock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue // A concurrent sweep has mistaken the directory for an abandoned one.
		}
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		return &staging{dir, lock}, nil
	}
}

func (s *staging) path(name string) string { return filepath.Join(s.dir, name) }

// Close removes the directory. It is idempotent.
func (s *staging) Close() error {
	defer s.lock.Release()
	return debian.RemoveAll(s.dir)
}

// sweep removes abandoned staging directories. It returns the number of freed bytes.
func sweep(parent string) (freed int64, err error) {
	folders, err := filepath.Glob(filepath.Join(parent, stagingPrefix+"*"))
	if err != nil {
		return 0, err
	}
	for _, dir := range folders {
		lock, err := flock.Try(filepath.Join(dir, "lock"), flock.Exclusive)
		if errors.Is(err, flock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return freed, err
		}
		size := allocated(dir)
		err = debian.RemoveAll(dir)
		lock.Release()
		if err != nil {
			return freed, err
		}
		freed += size
	}
	return freed, nil
}

// allocated returns the disk usage of a file or a directory tree, in bytes.
func allocated(path string) (bytes int64) {
	filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err == nil && unix.Lstat(path, &stat) == nil {
			bytes += stat.Blocks * 512
		}
		return nil
	})
	return bytes
}

// checkSpace fails if fewer than need bytes are free at path.
func checkSpace(path string, need int64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return err
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < need {
		return exhausted("%d MiB are needed in %s, but only %d MiB are free", need>>20, path, free>>20)
	}
	return nil
}

// takeLock takes a lock in the directory parent. If another process holds the lock, takeLock calls
// the function waiting once.
func takeLock(ctx context.Context, parent, name string, waiting func()) (*flock.Lock, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	return flock.Take(ctx, filepath.Join(parent, name), flock.Exclusive, waiting)
}
