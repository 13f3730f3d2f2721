// Package sqlite opens SQLite databases of pyro and classifies SQLite's errors.
package sqlite

import (
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	// busyTimeout is how long a transaction waits for transactions of other connections and
	// processes.
	busyTimeout = 20 * time.Second
	// creationRetry is the time between attempts to connect to a database that another process
	// creates.
	creationRetry = 5 * time.Millisecond
)

// Lock is the time at which a transaction takes its lock.
type Lock string

// The kinds of locks.
const (
	Immediate Lock = "immediate" // the transaction takes its lock at its start. So a transaction that reads first does not fail when it writes.
	Deferred  Lock = "deferred"  // the transaction takes its lock at its first statement. For connections that only read.
)

// Open returns the database in a file, with a write-ahead log. Committed transactions survive a
// power failure. If the file does not exist, Open creates it with mode 0600, regardless of the
// umask. SQLite uses the same mode for its other files. pragmas are additional settings, such as
// "cache_size(-512)".
func Open(path string, lock Lock, pragmas ...string) (*sql.DB, error) {
	// Closing any descriptor of a database ends the locks of all connections of this process. So
	// only a file that does not exist is opened here.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	settings := url.Values{
		"_txlock": {string(lock)},
		"_pragma": append([]string{
			"busy_timeout(" + strconv.Itoa(int(busyTimeout.Milliseconds())) + ")", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			"journal_size_limit(1048576)",
		}, pragmas...),
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+settings.Encode())
	if err == nil {
		awaitCreation(db)
	}
	return db, err
}

// awaitCreation connects to a database. If another process is just creating it, SQLite does not
// wait for the write-ahead log, so awaitCreation tries again. Other errors appear at the next use.
func awaitCreation(db *sql.DB) {
	for deadline := time.Now().Add(busyTimeout); time.Now().Before(deadline); time.Sleep(creationRetry) {
		if code, _ := Code(db.Ping()); code&0xff != sqlite3.SQLITE_BUSY {
			return
		}
	}
}

// Code returns the extended result code of an error from SQLite. ok is false for other
// errors. See https://www.sqlite.org/rescode.html.
func Code(err error) (code int, ok bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code(), true
}

// KindOf returns the kind of an error with a result code.
func KindOf(code int) fault.Kind {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return fault.Exhausted
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.Corrupt
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Unavailable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return fault.Permission
	}
	return fault.Internal
}
