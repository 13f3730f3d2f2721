// Package store keeps the records of a control plane in SQLite or PostgreSQL: teams, users, keys,
// sessions, hosts, sandboxes, and the audit log. Both databases run the same SQL.
//
// One control plane uses a SQLite database. Several control planes can use one PostgreSQL database.
// Transactions that check a team's records before they change others run one after another, so that
// checks of quotas and roles can't race. Committed transactions survive a power failure.
//
// Errors have the kinds NotFound, Exists, Precondition, Exhausted (a quota or the disk),
// Unavailable (no connection), and Unsupported (the schema of a later version).
package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sqlite"
)

// maxConnections is the maximum number of open connections to PostgreSQL.
const maxConnections = 16

// Store is an open database. It is safe for concurrent use.
type Store struct {
	address string // without a password
	db      *sql.DB
	read    *sql.DB // for reads. With SQLite it is a separate pool, so that a reader does not wait for a writer; otherwise it is db.
	engine  engine
	readers readers
	audits  atomic.Int64 // entries that this process has added to the audit log
}

// engine is the kind of database.
type engine string

const (
	sqliteEngine   engine = "sqlite"
	postgresEngine engine = "postgres"
)

// Open opens a database and migrates it to the current schema. address is the URL of a PostgreSQL
// database, postgres://…, or the path of a SQLite file, which Open creates with mode 0600. The
// caller must call Close.
func Open(ctx context.Context, address string) (*Store, error) {
	open := openSQLite
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		open = openPostgres
	}
	s, err := open(address)
	if err != nil {
		return nil, fault.Wrap(err, "open database", redacted(address))
	}
	s.address = redacted(address)
	if err := s.migrate(ctx); err != nil {
		s.Close()
		return nil, fault.Wrap(s.fault(err), "open database", s.address)
	}
	return s, nil
}

// redacted returns an address without its password.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}
	return address
}

func openSQLite(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(path, sqlite.Immediate)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	read, err := sqlite.Open(path, sqlite.Deferred)
	if err != nil {
		db.Close()
		return nil, err
	}
	read.SetMaxOpenConns(4)
	return &Store{db: db, read: read, engine: sqliteEngine}, nil
}

func openPostgres(address string) (*Store, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fault.Newf(fault.Invalid, "it is not the address of a PostgreSQL database").WithHint("postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(4)
	db.SetConnMaxIdleTime(time.Minute)
	return &Store{db: db, read: db, engine: postgresEngine, readers: readers{config: config}}, nil
}

// Close closes the database. It is idempotent.
func (s *Store) Close() error {
	s.readers.close()
	err := s.db.Close()
	if s.read != s.db {
		err = errors.Join(err, s.read.Close())
	}
	return err
}
