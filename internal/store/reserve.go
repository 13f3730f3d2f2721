package store

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// A full disk must not keep anybody from deleting what fills it, and a deletion writes to the database. So some space beside the database is reserved for that. A write
// that does not fit takes it, and gives it back when it can. What pyro can do without, such as the history, is not written as long as there is no reserve.
const (
	reserveFile  = "state.db-reserve"
	reserveBytes = 2 << 20
)

// reserve takes the space, unless it is taken already, and tells whether that succeeded.
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
		return !s.short() // this file system reserves nothing
	} else if err != nil {
		f.Truncate(0) // part of it would be in everybody's way
		return false
	}
	return true
}

// Release frees the reserve, for a write that has to fit. Reserve takes it again.
func (s *Store) Release() { os.Remove(filepath.Join(s.dir, reserveFile)) }

// Reserve takes space for what has to be written to a full disk. It is no error if there is none.
func (s *Store) Reserve() { s.reserve() }

// short tells whether the disk has less space than the reserve.
func (s *Store) short() bool {
	var st unix.Statfs_t
	return unix.Statfs(s.dir, &st) == nil && int64(st.Bavail)*st.Bsize < reserveBytes
}

// unreserved runs something that needs space. Where the disk is full it is run once more, without the reserve.
func (s *Store) unreserved(do func() error) error {
	err := do()
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	s.Release()
	defer s.reserve()
	return do()
}

// full is the error of a write that is not done on a full disk.
func (s *Store) full() error {
	return fault.New(fault.Exhausted, "use database", s.Path(), "the disk is full").WithHint("%s", freeSpace)
}

// freeSpace is what to do about a full disk.
const freeSpace = "free space: pyro env prune, pyro workspace delete ID, or pyro workspace exec ID -- rm FILE"
