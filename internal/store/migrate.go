package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// migrations are the steps from an empty database to the current schema, in the order of their
// names. Released steps never change.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate upgrades the database to the current schema, whose version is the number of steps. Each
// step is a transaction. Several processes can migrate at the same time.
func (s *Store) migrate(ctx context.Context, db *sql.DB) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	schema, err := schemaOf(ctx, db)
	if err != nil || schema == len(steps) {
		return err
	}
	for n := schema; ; n++ {
		done, err := s.step(ctx, db, steps)
		if err != nil || done {
			return err
		}
	}
}

// step runs the next step, if any.
func (s *Store) step(ctx context.Context, db *sql.DB, steps []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	schema, err := schemaOf(ctx, tx)
	switch {
	case err != nil:
		return false, err
	case schema > len(steps):
		return false, fault.New(fault.Unsupported, "open database", s.Path(), "a later version of pyro created it (schema %d; this one supports %d)", schema, len(steps)).
			WithHint("use the later version of pyro, or set PYRO_STATE_DIR to another folder")
	case schema == len(steps):
		return true, nil
	}
	text, err := migrations.ReadFile(steps[schema])
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return false, fmt.Errorf("%s: %w", steps[schema], err)
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schema+1)); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

func schemaOf(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (schema int, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&schema)
	return schema, err
}
