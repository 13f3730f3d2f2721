package store

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Users must be able to delete data when the disk is full, and a deletion writes to the database.
// Therefore some space is reserved in a file beside the database. If a write does not fit on the
// disk, the store empties this file, writes again, and then tries to fill it again. While the file
// is empty, the store does not write optional data, such as the history.
//
// The file has a lock, because several processes use the database. A process that needs the space
// holds the shared lock, and a process that fills the file holds the exclusive lock.
const (
	reserveFile  = "state.db-reserve"
	reserveBytes = 2 << 20
)

func (s *Store) reservePath() string { return filepath.Join(s.dir, reserveFile) }

// reserve fills the reserve if no process needs the space, and reports whether it is full.
func (s *Store) reserve() bool {
	path := s.reservePath()
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Blocks*512 >= reserveBytes {
		return true
	}
	lock, err := flock.Try(path, flock.Exclusive)
	if err != nil {
		return false
	}
	defer lock.Release()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, reserveBytes); err == unix.EOPNOTSUPP {
		return !s.short() // this file system can't preallocate
	} else if err != nil {
		f.Truncate(0) // free a partial allocation
		return false
	}
	return true
}

// Release frees the reserve for a write that must succeed. No process fills the reserve again
// before the caller calls done, which fills it if there is space.
func (s *Store) Release(ctx context.Context) (done func()) {
	// Without the lock, the write can still succeed.
	lock, _ := flock.Take(ctx, s.reservePath(), flock.Shared, nil)
	os.Truncate(s.reservePath(), 0)
	return func() {
		lock.Release()
		s.reserve()
	}
}

// short reports whether the disk has less space left than the reserve.
func (s *Store) short() bool {
	var st unix.Statfs_t
	return unix.Statfs(s.dir, &st) == nil && int64(st.Bavail)*st.Bsize < reserveBytes
}

// unreserved calls the function do. If the disk is full, unreserved releases the reserve and calls
// do again.
func (s *Store) unreserved(ctx context.Context, do func() error) error {
	err := do()
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	defer s.Release(ctx)()
	return do()
}

// full returns the error for an optional write on a full disk.
func (s *Store) full() error {
	return fault.New(fault.Exhausted, "use database", s.Path(), "the disk is full").WithHint("%s", freeSpace)
}

// freeSpace is the hint for a full disk.
const freeSpace = "free space: pyro env prune, pyro workspace delete ID, or pyro workspace exec ID -- rm FILE"
