package store

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// External is a user's account at an OpenID provider.
type External struct {
	Issuer, Subject string
}

// UserByExternal returns the user with an account at a provider.
func (s *Store) UserByExternal(ctx context.Context, e External) (User, error) {
	u, err := find(ctx, s.read, "user", e.Subject, scanUser, "SELECT "+userFields+" FROM users WHERE id = (SELECT user_id FROM identities WHERE issuer = $1 AND subject = $2)",
		e.Issuer, e.Subject)
	return u, s.fault(err)
}

// Externals returns the accounts of a user at providers.
func (s *Store) Externals(ctx context.Context, user string) ([]External, error) {
	all, err := externals(ctx, s.read, user)
	return all, s.fault(err)
}

func externals(ctx context.Context, from querier, user string) ([]External, error) {
	return collect(ctx, from, func(r row) (e External, err error) {
		return e, r.Scan(&e.Issuer, &e.Subject)
	}, "SELECT issuer, subject FROM identities WHERE user_id = $1 ORDER BY issuer", user)
}

// Link adds an account at a provider to a user. It removes the user's password, sessions, login
// links and API keys, because the person who sent the invitation may have them. Precondition: the
// user has another account at the provider.
func (s *Store) Link(ctx context.Context, user string, e External, now time.Time) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := setPassword(ctx, tx, user, secret.Value{}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM api_keys WHERE created_by = $1", user); err != nil {
			return err
		}
		return addExternal(ctx, tx, user, e, now)
	})
}

func addExternal(ctx context.Context, tx *sql.Tx, user string, e External, now time.Time) error {
	r, err := tx.ExecContext(ctx, "INSERT INTO identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
		e.Issuer, e.Subject, user, micros(now))
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, error(fault.New(fault.Precondition, "link user", user, "the user has another account at this provider")))
	}
	return nil
}

// AddExternalUser adds a new user with an account at a provider to a team. Exists: another user has
// the email.
func (s *Store) AddExternalUser(ctx context.Context, team string, u User, e External, role Role) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		if err := addUser(ctx, tx, u); err != nil {
			return err
		}
		if err := addExternal(ctx, tx, u.ID, e, u.CreatedAt); err != nil {
			return err
		}
		return s.addMember(ctx, tx, team, u.ID, role, role, u.CreatedAt)
	})
}
