package store

import (
	"context"
	"database/sql"
	"time"
)

// AddLoginLink adds a login link of a user, and removes expired links. hash is the SHA-256 of the
// link's token in hex.
func (s *Store) AddLoginLink(ctx context.Context, hash, user string, now, expires time.Time) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM login_links WHERE expires_at <= $1", micros(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO login_links (hash, user_id, expires_at) VALUES ($1, $2, $3)", hash, user, micros(expires))
		return err
	})
}

// UseLoginLink removes a login link and returns its user. If several callers use a link at the same
// time, only one of them succeeds. NotFound: there is no such link, or it has expired.
func (s *Store) UseLoginLink(ctx context.Context, hash string, now time.Time) (user string, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		user, err = find(ctx, tx, "login link", "", scanText, "DELETE FROM login_links WHERE hash = $1 AND expires_at > $2 RETURNING user_id", hash, micros(now))
		return err
	})
	return user, err
}

func scanText(r row) (text string, err error) {
	err = r.Scan(&text)
	return text, err
}
