package store

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Users must be able to delete data when the disk is full, and a deletion writes to the database.
// Therefore some space is reserved in a file beside the database. If a write does not fit on the
// disk, the store deletes this file, writes again, and then tries to restore the file. While the
// file is missing, the store does not write optional data, such as the history.
const (
	reserveFile  = "state.db-reserve"
	reserveBytes = 2 << 20
)

// reserve allocates the reserve if it is missing, and reports whether it exists.
func (s *Store) reserve() bool {
	path := filepath.Join(s.dir, reserveFile)
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Blocks*512 >= reserveBytes {
		return true
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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

// Release frees the reserve, for a write that must succeed. Reserve restores it.
func (s *Store) Release() { os.Remove(filepath.Join(s.dir, reserveFile)) }

// Reserve allocates the reserve if there is space for it.
func (s *Store) Reserve() { s.reserve() }

// short reports whether the disk has less space left than the reserve.
func (s *Store) short() bool {
	var st unix.Statfs_t
	return unix.Statfs(s.dir, &st) == nil && int64(st.Bavail)*st.Bsize < reserveBytes
}

// unreserved calls the function do. If the disk is full, unreserved releases the reserve and calls
// do again.
func (s *Store) unreserved(do func() error) error {
	err := do()
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	s.Release()
	defer s.reserve()
	return do()
}

// full returns the error for an optional write on a full disk.
func (s *Store) full() error {
	return fault.New(fault.Exhausted, "use database", s.Path(), "the disk is full").WithHint("%s", freeSpace)
}

// freeSpace is the hint for a full disk.
const freeSpace = "free space: pyro env prune, pyro workspace delete ID, or pyro workspace exec ID -- rm FILE"
