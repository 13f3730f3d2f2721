package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// User is a person.
type User struct {
	ID        string
	Email     string // unique, in lower case
	Name      string
	Password  secret.Value // the hash; empty: no login by password
	Disabled  bool
	CreatedAt time.Time
}

const userFields = "id, email, name, password, disabled, created_at"

func scanUser(r row) (u User, err error) {
	var password string
	var disabled, at int64
	err = r.Scan(&u.ID, &u.Email, &u.Name, &password, &disabled, &at)
	u.Password, u.Disabled, u.CreatedAt = secret.New(password), disabled != 0, moment(at)
	return u, err
}

// AddUser adds a user. Exists: another user has the email.
func (s *Store) AddUser(ctx context.Context, u User) error {
	return s.change(ctx, func(tx *sql.Tx) error { return addUser(ctx, tx, u) })
}

func addUser(ctx context.Context, tx *sql.Tx, u User) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO users ("+userFields+") VALUES ($1, $2, $3, $4, $5, $6)",
		u.ID, strings.ToLower(u.Email), u.Name, u.Password.Reveal(), number(u.Disabled), micros(u.CreatedAt))
	return err
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// User returns a user.
func (s *Store) User(ctx context.Context, id string) (User, error) {
	u, err := find(ctx, s.read, "user", id, scanUser, "SELECT "+userFields+" FROM users WHERE id = $1", id)
	return u, s.fault(err)
}

// UserByEmail returns the user with an email address. It ignores upper and lower case.
func (s *Store) UserByEmail(ctx context.Context, email string) (User, error) {
	u, err := find(ctx, s.read, "user", email, scanUser, "SELECT "+userFields+" FROM users WHERE email = $1", strings.ToLower(email))
	return u, s.fault(err)
}

// SetPassword replaces the hash of a user's password, and ends the user's sessions and login links.
func (s *Store) SetPassword(ctx context.Context, id string, hash secret.Value) error {
	return s.change(ctx, func(tx *sql.Tx) error { return setPassword(ctx, tx, id, hash) })
}

func setPassword(ctx context.Context, tx *sql.Tx, id string, hash secret.Value) error {
	if err := changeOne(ctx, tx, "user", id, "UPDATE users SET password = $1 WHERE id = $2", hash.Reveal(), id); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM login_links WHERE user_id = $1", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = $1", id)
	return err
}

// RenameUser changes the name of a user. It is idempotent.
func (s *Store) RenameUser(ctx context.Context, id, name string) error {
	return s.changeOne(ctx, "user", id, "UPDATE users SET name = $1 WHERE id = $2", name, id)
}

// SetDisabled disables or enables a user. A disabled user's keys and sessions are not valid.
func (s *Store) SetDisabled(ctx context.Context, id string, disabled bool) error {
	return s.changeOne(ctx, "user", id, "UPDATE users SET disabled = $1 WHERE id = $2", number(disabled), id)
}

// UsersByEmail returns at most limit users with emails that begin with a text, sorted by email.
func (s *Store) UsersByEmail(ctx context.Context, begin string, limit int) ([]User, error) {
	pattern := strings.NewReplacer(`!`, `!!`, `%`, `!%`, `_`, `!_`).Replace(strings.ToLower(begin)) + "%"
	all, err := collect(ctx, s.read, scanUser, "SELECT "+userFields+" FROM users WHERE email LIKE $1 ESCAPE '!' ORDER BY email LIMIT $2", pattern, limit)
	return all, s.fault(err)
}

// ErrOwnsTeam is wrapped by the error of RemoveUser if the user is the only owner of a team with
// other members.
var ErrOwnsTeam = errors.New("the user is the only owner of a team with other members")

// RemoveUser removes a user with all memberships, sessions and keys. It also removes teams without
// other members. Precondition: the user is the only owner of a team that has other members or
// sandboxes, or of the first team.
func (s *Store) RemoveUser(ctx context.Context, id string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		teams, err := collect(ctx, tx, scanText, "SELECT team_id FROM members WHERE user_id = $1 ORDER BY team_id", id)
		if err != nil {
			return err
		}
		for _, team := range teams {
			if err := s.leaveTeam(ctx, tx, team, id); err != nil {
				return err
			}
		}
		return changeOne(ctx, tx, "user", id, "DELETE FROM users WHERE id = $1", id)
	})
}

// leaveTeam removes a user from a team. If the team has no other member, it removes the team too.
func (s *Store) leaveTeam(ctx context.Context, tx *sql.Tx, team, user string) error {
	if err := lockTeam(ctx, tx, team); err != nil {
		return err
	}
	others, err := collect(ctx, tx, scanText, "SELECT role FROM members WHERE team_id = $1 AND user_id <> $2", team, user)
	switch {
	case err != nil:
		return err
	case len(others) == 0:
		return s.removeTeam(ctx, tx, team)
	case !slices.Contains(others, string(RoleOwner)):
		if m, err := member(ctx, tx, team, user); err != nil || m.Role == RoleOwner {
			return cmp.Or(err, error(fault.New(fault.Precondition, "delete user", user, "%w", ErrOwnsTeam).WithHint("make another member an owner first")))
		}
	}
	return s.removeMember(ctx, tx, team, user)
}
