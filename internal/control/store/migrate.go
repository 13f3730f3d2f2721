package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// migrations are the steps from an empty database to the current schema. Released steps never
// change.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate upgrades the database to the current schema. It takes a lock, so that several control
// planes can call it at the same time for a PostgreSQL database.
func (s *Store) migrate(ctx context.Context) error {
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithVerbose(false)}
	if s.engine == postgresEngine {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		dialect, options = goose.DialectPostgres, append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, s.db, steps, options...)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	return s.checkSchema(ctx, p)
}

// checkSchema refuses a database that a later version has migrated.
func (s *Store) checkSchema(ctx context.Context, p *goose.Provider) error {
	var schema sql.NullInt64
	if err := s.db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&schema); err != nil {
		return err
	}
	sources := p.ListSources()
	if len(sources) == 0 {
		return errors.New("there are no migrations")
	}
	if own := sources[len(sources)-1].Version; schema.Int64 > own {
		return fault.Newf(fault.Unsupported, "a later version of pyro has changed it (schema %d; this one supports %d)", schema.Int64, own).
			WithHint("use the later version of pyro")
	}
	return nil
}
