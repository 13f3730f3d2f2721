package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Role determines the permissions of a member.
type Role string

// The roles, the most powerful first. Each role includes the permissions of the next role.
const (
	RoleOwner  Role = "owner"  // adds and removes owners, and deletes the team
	RoleAdmin  Role = "admin"  // changes members, keys and quotas
	RoleMember Role = "member" // changes sandboxes
	RoleViewer Role = "viewer" // reads
)

// Roles are all roles, the most powerful first.
var Roles = []Role{RoleOwner, RoleAdmin, RoleMember, RoleViewer}

// Includes reports whether r has all permissions of other.
func (r Role) Includes(other Role) bool {
	mine, its := slices.Index(Roles, r), slices.Index(Roles, other)
	return mine >= 0 && mine <= its
}

// Member is a user in a team.
type Member struct {
	TeamID, UserID string
	Email, Name    string
	Role           Role
	JoinedAt       time.Time
}

const memberFields = "m.team_id, m.user_id, u.email, u.name, m.role, m.joined_at FROM members m JOIN users u ON u.id = m.user_id"

func scanMember(r row) (m Member, err error) {
	var at int64
	err = r.Scan(&m.TeamID, &m.UserID, &m.Email, &m.Name, &m.Role, &at)
	m.JoinedAt = moment(at)
	return m, err
}

// Members returns the members of a team, sorted by email.
func (s *Store) Members(ctx context.Context, team string) ([]Member, error) {
	all, err := collect(ctx, s.read, scanMember, "SELECT "+memberFields+" WHERE m.team_id = $1 ORDER BY u.email", team)
	return all, s.fault(err)
}

// Memberships returns the teams of a user with the user's roles, the oldest membership first.
func (s *Store) Memberships(ctx context.Context, user string) ([]Member, error) {
	all, err := collect(ctx, s.read, scanMember, "SELECT "+memberFields+" WHERE m.user_id = $1 ORDER BY m.joined_at, m.team_id", user)
	return all, s.fault(err)
}

// Member returns a member of a team. NotFound: the user is not a member.
func (s *Store) Member(ctx context.Context, team, user string) (Member, error) {
	m, err := member(ctx, s.read, team, user)
	return m, s.fault(err)
}

func member(ctx context.Context, from querier, team, user string) (Member, error) {
	return find(ctx, from, "member", user, scanMember, "SELECT "+memberFields+" WHERE m.team_id = $1 AND m.user_id = $2", team, user)
}

// AddMember adds a user to a team. by is the role of the member who adds the user. If the user has
// neither a password nor an account at a provider, invited is true. The user's sessions and login
// links then end, because the person who sent the first invitation may have them. NotFound: there
// is no such team or user. Exists: the user is already a member. Permission: only an owner can add
// owners.
func (s *Store) AddMember(ctx context.Context, team, user string, role, by Role, now time.Time) (invited bool, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		u, err := find(ctx, tx, "user", user, scanUser, "SELECT "+userFields+" FROM users WHERE id = $1", user)
		if err != nil {
			return err
		}
		if err := s.addMember(ctx, tx, team, user, role, by, now); err != nil {
			return err
		}
		external, err := externals(ctx, tx, user)
		if invited = err == nil && u.Password.Reveal() == "" && len(external) == 0; !invited {
			return err
		}
		return setPassword(ctx, tx, user, secret.Value{})
	})
	return invited, err
}

func (s *Store) addMember(ctx context.Context, tx *sql.Tx, team, user string, role, by Role, now time.Time) error {
	if err := ownersOnly(by, role); err != nil {
		return err
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO members (team_id, user_id, role, joined_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (team_id, user_id) DO NOTHING`, team, user, role, micros(now))
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		return fault.New(fault.Exists, "add member", user, "the user is a member of the team")
	}
	if err != nil {
		return err
	}
	return s.addEvent(ctx, tx, team, EventMemberSet, user, map[string]string{"role": string(role)})
}

// Invite adds a new user to a team. Exists: another user has the email.
func (s *Store) Invite(ctx context.Context, team string, u User, role, by Role, now time.Time) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		if err := addUser(ctx, tx, u); err != nil {
			return err
		}
		return s.addMember(ctx, tx, team, u.ID, role, by, now)
	})
}

// ownersOnly fails with Permission if one of the roles is owner, but by is not.
func ownersOnly(by Role, roles ...Role) error {
	if by != RoleOwner && slices.Contains(roles, RoleOwner) {
		return fault.Newf(fault.Permission, "only an owner can add, change or remove owners")
	}
	return nil
}

// SetRole changes the role of a member. by is the role of the caller. NotFound: the user is not a
// member. Permission: only an owner can change owners. Precondition: the team would have no owner.
func (s *Store) SetRole(ctx context.Context, team, user string, role, by Role) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		m, err := member(ctx, tx, team, user)
		if err != nil {
			return err
		}
		if err := ownersOnly(by, m.Role, role); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE members SET role = $1 WHERE team_id = $2 AND user_id = $3", role, team, user); err != nil {
			return err
		}
		if err := s.addEvent(ctx, tx, team, EventMemberSet, user, map[string]string{"role": string(role)}); err != nil {
			return err
		}
		return needOwner(ctx, tx, team)
	})
}

// needOwner fails with Precondition if a team has no owner.
func needOwner(ctx context.Context, tx *sql.Tx, team string) error {
	var owners int
	err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM members WHERE team_id = $1 AND role = $2", team, RoleOwner).Scan(&owners)
	if err == nil && owners == 0 {
		return fault.New(fault.Precondition, "change members of team", team, "it would have no owner").WithHint("make another member the owner first")
	}
	return err
}

// RemoveMember removes a user from a team, with the user's sessions and keys for this team. by is
// the role of the caller. Permission: only an owner can remove owners. Precondition: the team would
// have no owner.
func (s *Store) RemoveMember(ctx context.Context, team, user string, by Role) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		m, err := member(ctx, tx, team, user)
		if err != nil {
			return err
		}
		if err := ownersOnly(by, m.Role); err != nil {
			return err
		}
		if err := s.removeMember(ctx, tx, team, user); err != nil {
			return err
		}
		return needOwner(ctx, tx, team)
	})
}

func (s *Store) removeMember(ctx context.Context, tx *sql.Tx, team, user string) error {
	for _, statement := range []string{
		"DELETE FROM members WHERE team_id = $1 AND user_id = $2", "DELETE FROM sessions WHERE team_id = $1 AND user_id = $2",
		"DELETE FROM api_keys WHERE team_id = $1 AND created_by = $2",
	} {
		if _, err := tx.ExecContext(ctx, statement, team, user); err != nil {
			return err
		}
	}
	return s.addEvent(ctx, tx, team, EventMemberRemoved, user, nil)
}
