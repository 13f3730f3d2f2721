// Package store keeps what pyro knows of workspaces and machines in one SQLite database, state.db in the state folder, which many processes use at once.
//
// It holds what can't be found out by looking: identity, labels, which disks belong to what, snapshots, the history of commands and of what else was done.
// Whether a machine runs is not in it: that is whether its supervisor holds its lock. A transaction that was committed survives the loss of power (WAL,
// synchronous=FULL).
//
// Errors have the kinds NotFound, Exists, Exhausted for a full disk, Corrupt for a database that can't be read, and Unsupported for one of a later pyro.
package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// file is the database's name in the state folder.
const file = "state.db"

// busyPatience is how long a write waits for those of other processes.
const busyPatience = 20 * time.Second

// Store is the database. It is safe for concurrent use. It is opened, and made, when it is first used.
type Store struct {
	dir string

	mu     sync.Mutex
	db     *sql.DB
	closed bool
}

// Open gives the database of a state folder. It touches nothing yet. The caller must Close.
func Open(dir string) *Store { return &Store{dir: dir} }

// Path is where the database is.
func (s *Store) Path() string { return filepath.Join(s.dir, file) }

// Close ends the use of the database. Idempotent.
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

// connected gives the database, opened and of this pyro's form.
func (s *Store) connected(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Internal, "open database", s.Path(), "it has been closed")
	}
	if s.db != nil {
		return s.db, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fault.Wrap(err, "open database", s.Path())
	}
	var db *sql.DB
	err := s.unreserved(func() (err error) {
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

// open opens the database, and gives it the form of this pyro.
func (s *Store) open(ctx context.Context) (*sql.DB, error) {
	if err := s.private(); err != nil {
		return nil, fault.Wrap(err, "open database", s.Path())
	}
	settings := url.Values{
		"_txlock": {"immediate"}, // a transaction that read before it writes would fail where another wrote meanwhile
		"_pragma": {
			"busy_timeout(" + strconv.Itoa(int(busyPatience.Milliseconds())) + ")", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			"cache_size(-512)", "journal_size_limit(1048576)",
		},
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: s.Path()}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, s.fault(err)
	}
	db.SetMaxOpenConns(2)
	if err := s.migrate(ctx, db); err != nil {
		db.Close()
		return nil, s.fault(err)
	}
	return db, nil
}

// private makes the database's file before SQLite does, readable by nobody else whatever the umask is. SQLite gives its other files the same mode.
func (s *Store) private() error {
	f, err := os.OpenFile(s.Path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// write runs a transaction that changes something: all of it or nothing. It may run do twice.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) error {
	return s.unreserved(func() error { return s.transaction(ctx, do) })
}

// record is write for what pyro can do without. On a full disk it fails, with kind Exhausted.
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

// row is one of a query's result.
type row interface{ Scan(...any) error }

// collect gives all rows of a query, each as scan reads it.
func collect[T any](ctx context.Context, s *Store, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return collectFrom(ctx, s, db, scan, query, args...)
}

// collectFrom is collect on the database or in a transaction.
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

// fault gives SQLite's errors their kind. Others are left as they are.
func (s *Store) fault(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	f := &fault.Error{Op: "use database", Subject: s.Path(), Kind: fault.Internal, Err: err}
	switch code := e.Code() & 0xff; code {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN: // so it also says that a file of its own can't grow
		if s.short() {
			return s.full()
		}
		if code == sqlite3.SQLITE_CANTOPEN {
			f.Kind = fault.Permission
		}
	case sqlite3.SQLITE_FULL:
		f.Kind, f.Hint = fault.Exhausted, freeSpace
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		f.Kind = fault.Corrupt
		f.Hint = "move it away, with state.db-wal and state.db-shm: pyro begins a new one, and the workspaces' disks stay where they are"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		f.Kind = fault.Unavailable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		f.Kind = fault.Permission
	}
	return f
}
