package store

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Key is an API key of a team, without the key itself.
type Key struct {
	ID         string
	TeamID     string
	Name       string
	Prefix     string   // the first characters of the key, which may be shown
	Hash       string   // SHA-256 of the key in hex
	Scopes     []string // empty: everything that a member may do
	CreatedBy  string   // the id of a user
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: never
}

const keyFields = "id, team_id, name, prefix, hash, scopes, created_by, created_at, expires_at, last_used_at"

func scanKey(r row) (k Key, err error) {
	var scopes string
	var created, expires, used int64
	err = r.Scan(&k.ID, &k.TeamID, &k.Name, &k.Prefix, &k.Hash, &scopes, &k.CreatedBy, &created, &expires, &used)
	k.Scopes = strings.Fields(scopes)
	k.CreatedAt, k.ExpiresAt, k.LastUsedAt = moment(created), moment(expires), moment(used)
	return k, err
}

// AddKey adds a key.
func (s *Store) AddKey(ctx context.Context, k Key) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, k.TeamID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO api_keys ("+keyFields+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			k.ID, k.TeamID, k.Name, k.Prefix, k.Hash, strings.Join(k.Scopes, " "), k.CreatedBy, micros(k.CreatedAt), micros(k.ExpiresAt), micros(k.LastUsedAt))
		if err != nil {
			return err
		}
		return s.addEvent(ctx, tx, k.TeamID, EventKeyCreated, k.ID, map[string]string{"name": k.Name})
	})
}

// Keys returns the keys of a team, the oldest first.
func (s *Store) Keys(ctx context.Context, team string) ([]Key, error) {
	all, err := collect(ctx, s.read, scanKey, "SELECT "+keyFields+" FROM api_keys WHERE team_id = $1 ORDER BY created_at, id", team)
	return all, s.fault(err)
}

// KeyByHash returns the key with a hash, even if it has expired, and the current role of the key's
// creator. The role is empty if that user is disabled or has left the team.
func (s *Store) KeyByHash(ctx context.Context, hash string) (k Key, creator Role, err error) {
	k, err = find(ctx, s.read, "API key", "", func(r row) (Key, error) {
		return scanKey(rowAnd{r, &creator})
	}, `SELECT `+keyFields+`, COALESCE((SELECT m.role FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.team_id = api_keys.team_id AND m.user_id = api_keys.created_by AND u.disabled = 0), '') FROM api_keys WHERE hash = $1`, hash)
	return k, creator, s.fault(err)
}

// rowAnd is a row with an additional column.
type rowAnd struct {
	row
	last any
}

func (r rowAnd) Scan(to ...any) error { return r.row.Scan(append(to, r.last)...) }

// UseKey records when a key was used. If the key was removed, UseKey does nothing.
func (s *Store) UseKey(ctx context.Context, id string, now time.Time) error {
	return s.exec(ctx, "UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1", micros(now), id)
}

// Key returns a key of a team. NotFound: the team has no such key.
func (s *Store) Key(ctx context.Context, team, id string) (Key, error) {
	k, err := find(ctx, s.read, "API key", id, scanKey, "SELECT "+keyFields+" FROM api_keys WHERE team_id = $1 AND id = $2", team, id)
	return k, s.fault(err)
}

// RemoveKey removes a key of a team. NotFound: the team has no such key.
func (s *Store) RemoveKey(ctx context.Context, team, id string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		if err := changeOne(ctx, tx, "API key", id, "DELETE FROM api_keys WHERE team_id = $1 AND id = $2", team, id); err != nil {
			return err
		}
		return s.addEvent(ctx, tx, team, EventKeyRemoved, id, nil)
	})
}

// Session is a login of a user. The user acts for one team.
type Session struct {
	Hash           string // SHA-256 of the cookie in hex
	UserID, TeamID string
	CreatedAt      time.Time
	ExpiresAt      time.Time
}

const sessionFields = "hash, user_id, team_id, created_at, expires_at"

func scanSession(r row) (v Session, err error) {
	var created, expires int64
	err = r.Scan(&v.Hash, &v.UserID, &v.TeamID, &created, &expires)
	v.CreatedAt, v.ExpiresAt = moment(created), moment(expires)
	return v, err
}

// AddSession adds a session, and removes expired sessions.
func (s *Store) AddSession(ctx context.Context, v Session) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE expires_at <= $1", micros(v.CreatedAt)); err != nil {
			return err
		}
		return addSession(ctx, tx, v)
	})
}

func addSession(ctx context.Context, tx *sql.Tx, v Session) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO sessions ("+sessionFields+") VALUES ($1, $2, $3, $4, $5)",
		v.Hash, v.UserID, v.TeamID, micros(v.CreatedAt), micros(v.ExpiresAt))
	return err
}

// Session returns a session that has not expired.
func (s *Store) Session(ctx context.Context, hash string, now time.Time) (Session, error) {
	v, err := find(ctx, s.read, "session", "", scanSession, "SELECT "+sessionFields+" FROM sessions WHERE hash = $1 AND expires_at > $2", hash, micros(now))
	return v, s.fault(err)
}

// ReplaceSession ends a session and adds another session.
func (s *Store) ReplaceSession(ctx context.Context, hash string, v Session) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := changeOne(ctx, tx, "session", "", "DELETE FROM sessions WHERE hash = $1", hash); err != nil {
			return err
		}
		return addSession(ctx, tx, v)
	})
}

// RemoveSession ends a session. It is idempotent.
func (s *Store) RemoveSession(ctx context.Context, hash string) error {
	return s.exec(ctx, "DELETE FROM sessions WHERE hash = $1", hash)
}
