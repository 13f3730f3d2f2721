package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/sqlite"
)

// maxTries is the maximum number of attempts at a transaction.
const maxTries = 20

// change runs a transaction. It repeats do after a deadlock in PostgreSQL, so do must have no other
// effect. A transaction that checks records of a team before it changes others must call lockTeam
// first.
func (s *Store) change(ctx context.Context, do func(*sql.Tx) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, do)
		if !conflicting(err) || try == maxTries {
			return s.fault(err)
		}
		select {
		case <-time.After(time.Duration(try) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Store) once(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	committed := false
	defer func() { s.readers.end(tx, committed) }()
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	err = tx.Commit()
	committed = err == nil
	return err
}

// lockTeam locks a team until the end of the transaction. Other transactions that lock the team
// wait. NotFound: there is no such team.
func lockTeam(ctx context.Context, tx *sql.Tx, id string) error {
	return changeOne(ctx, tx, "team", id, "UPDATE teams SET name = name WHERE id = $1", id)
}

// conflicting reports whether a transaction failed only because of a conflict with another
// transaction.
func conflicting(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}

// exec runs one statement in a transaction.
func (s *Store) exec(ctx context.Context, statement string, args ...any) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
}

// changeOne runs a statement that changes one row. If no row matches, it fails with NotFound. The
// error contains the parameters what and id.
func (s *Store) changeOne(ctx context.Context, what, id, statement string, args ...any) error {
	return s.change(ctx, func(tx *sql.Tx) error { return changeOne(ctx, tx, what, id, statement, args...) })
}

func changeOne(ctx context.Context, tx *sql.Tx, what, id, statement string, args ...any) error {
	r, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		err = notFound(what, id)
	}
	return err
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// row is a row of a result.
type row interface{ Scan(...any) error }

// collect returns all rows of a query, converted by scan.
func collect[T any](ctx context.Context, from querier, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// find returns the row of a query, converted by scan. If there is no row, it fails with NotFound.
// The error contains the parameters what and id.
func find[T any](ctx context.Context, from querier, what, id string, scan func(row) (T, error), query string, args ...any) (T, error) {
	one, err := scan(from.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = notFound(what, id)
	}
	return one, err
}

func notFound(what, id string) error {
	return fault.New(fault.NotFound, "find "+what, fault.Printable(id[:min(len(id), 80)]), "no such %s", what)
}

// fault converts the databases' errors to faults. Other errors stay unchanged.
func (s *Store) fault(err error) error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Op: "use database", Subject: s.address, Kind: fault.Internal, Err: err}
	lite, isSQLite := sqlite.Code(err)
	var post *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case isSQLite:
		f.Kind = kindOfSQLite(lite)
	case errors.As(err, &post) && post.Code == "22021": // character_not_in_repertoire
		return fault.Newf(fault.Invalid, "a text has a NUL byte, or is not valid UTF-8")
	case errors.As(err, &post):
		f.Kind = kindOfPostgres(post.Code)
	case errors.As(err, &connect):
		f.Kind, f.Hint = fault.Unavailable, "check the address, and whether PostgreSQL runs"
	default:
		return err
	}
	return f
}

func kindOfSQLite(code int) fault.Kind {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return fault.Exists
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fault.Precondition
	}
	return sqlite.KindOf(code)
}

// kindOfPostgres converts a SQLSTATE, see https://www.postgresql.org/docs/current/errcodes-appendix.html.
func kindOfPostgres(state string) fault.Kind {
	switch state {
	case "23505": // unique_violation
		return fault.Exists
	case "23503": // foreign_key_violation
		return fault.Precondition
	}
	switch state[:min(2, len(state))] {
	case "08", "57", "40": // connection failures, interventions of the operator, and conflicts between transactions
		return fault.Unavailable
	case "53": // insufficient resources
		return fault.Exhausted
	case "28", "42": // authorization, and access rules
		return fault.Permission
	}
	return fault.Internal
}
