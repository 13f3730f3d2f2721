package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// migrations are the steps from an empty database to the present form, in the order of their names. A step that was released is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the database to the present form, whose number is that of the steps. Each step happens wholly or not at all, by whichever process comes
// first.
func (s *Store) migrate(ctx context.Context, db *sql.DB) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	form, err := formOf(ctx, db)
	if err != nil || form == len(steps) {
		return err
	}
	for n := form; ; n++ {
		done, err := s.step(ctx, db, steps)
		if err != nil || done {
			return err
		}
	}
}

// step does the next step that is left.
func (s *Store) step(ctx context.Context, db *sql.DB, steps []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	form, err := formOf(ctx, tx)
	switch {
	case err != nil:
		return false, err
	case form > len(steps):
		return false, fault.New(fault.Unsupported, "open database", s.Path(), "it is of a later pyro (form %d; this one knows %d)", form, len(steps)).
			WithHint("use the later pyro, or another folder by PYRO_STATE_DIR")
	case form == len(steps):
		return true, nil
	}
	text, err := migrations.ReadFile(steps[form])
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return false, fmt.Errorf("%s: %w", steps[form], err)
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", form+1)); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

func formOf(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (form int, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&form)
	return form, err
}
