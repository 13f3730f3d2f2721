// Package store stores the records of workspaces and machines in a SQLite database: the file
// state.db in the state folder. Many processes can use the database at the same time.
//
// The database contains only state that can't be observed: identities, labels, the disks of each
// workspace, snapshots, and the history of commands and events. It does not record whether a
// machine runs, because the lock of a running supervisor shows that. Committed transactions survive
// a power failure (WAL, synchronous=FULL).
//
// Errors have the kinds NotFound, Exists, Exhausted (disk full), Corrupt (unreadable database) and
// Unsupported (created by a later version).
package store

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sqlite"
)

// file is the name of the database in the state folder.
const file = "state.db"

// Store is the database. It is safe for concurrent use. The first use of a Store opens or creates
// the database file.
type Store struct {
	dir string

	mu     sync.Mutex
	db     *sql.DB
	closed bool
}

// Open returns the database of a state folder. It does no I/O. The caller must call Close.
func Open(dir string) *Store { return &Store{dir: dir} }

// Path returns the path of the database.
func (s *Store) Path() string { return filepath.Join(s.dir, file) }

// Close closes the database. It is idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return s.fault(err)
}

// connected returns the open database with the current schema.
func (s *Store) connected(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Internal, "open database", s.Path(), "the store is closed")
	}
	if s.db != nil {
		return s.db, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fault.Wrap(err, "open database", s.Path())
	}
	var db *sql.DB
	err := s.unreserved(ctx, func() (err error) {
		db, err = s.open(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.reserve()
	s.db = db
	return db, nil
}

// open opens the database and migrates it.
func (s *Store) open(ctx context.Context) (*sql.DB, error) {
	db, err := sqlite.Open(s.Path(), sqlite.Immediate, "cache_size(-512)")
	if err != nil {
		return nil, fault.Wrap(err, "open database", s.Path())
	}
	db.SetMaxOpenConns(2)
	if err := s.migrate(ctx, db); err != nil {
		db.Close()
		return nil, s.fault(err)
	}
	return db, nil
}

// write runs the function do in a transaction. It can call do twice.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) error {
	return s.unreserved(ctx, func() error { return s.transaction(ctx, do) })
}

// record is like write, but for optional data: on a full disk it fails with kind Exhausted.
func (s *Store) record(ctx context.Context, do func(*sql.Tx) error) error {
	if _, err := s.connected(ctx); err != nil {
		return err
	}
	if !s.reserve() {
		return s.full()
	}
	return s.transaction(ctx, do)
}

func (s *Store) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	db, err := s.connected(ctx)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.fault(err)
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return s.fault(err)
	}
	return s.fault(tx.Commit())
}

// row is a row of a result.
type row interface{ Scan(...any) error }

// collect returns all rows of a query, converted by the function scan.
func collect[T any](ctx context.Context, s *Store, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return collectFrom(ctx, s, db, scan, query, args...)
}

// collectFrom is like collect, but runs the query on a given database or transaction.
func collectFrom[T any](ctx context.Context, s *Store, from interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.fault(err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, s.fault(err)
		}
		all = append(all, one)
	}
	return all, s.fault(rows.Err())
}

// fault converts SQLite's errors to faults. Other errors stay unchanged.
func (s *Store) fault(err error) error {
	code, ok := sqlite.Code(err)
	if !ok {
		return err
	}
	f := &fault.Error{Op: "use database", Subject: s.Path(), Kind: sqlite.KindOf(code), Err: err}
	switch code & 0xff {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN: // SQLite also returns these codes if one of its own files can't grow
		if s.short() {
			return s.full()
		}
	case sqlite3.SQLITE_FULL:
		f.Hint = freeSpace
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		f.Hint = "move it away, with state.db-wal and state.db-shm: pyro creates a new one, and the workspaces' disks stay"
	}
	return f
}
