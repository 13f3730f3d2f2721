package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Team owns sandboxes and keys. Other teams can't see them.
type Team struct {
	ID        string
	Name      string
	Slug      string // unique, for addresses
	Quota     Quota
	CreatedAt time.Time
}

// Quota limits the resources of a team's sandboxes and templates. Paused sandboxes use neither
// processors nor memory, and templates use only disk. EgressMB limits the data that the sandboxes
// send to other computers in a month (UTC). 0 is no limit.
type Quota struct {
	Sandboxes, VCPUs, MemoryMB, DiskMB, EgressMB int64
}

const teamFields = "id, name, slug, max_sandboxes, max_vcpus, max_memory_mb, max_disk_mb, max_egress_mb, created_at"

func scanTeam(r row) (t Team, err error) {
	var at int64
	err = r.Scan(&t.ID, &t.Name, &t.Slug, &t.Quota.Sandboxes, &t.Quota.VCPUs, &t.Quota.MemoryMB, &t.Quota.DiskMB, &t.Quota.EgressMB, &at)
	t.CreatedAt = moment(at)
	return t, err
}

// AddTeam adds a team with its first owner. Exists: another team has the slug.
func (s *Store) AddTeam(ctx context.Context, t Team, owner string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO teams ("+teamFields+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			t.ID, t.Name, t.Slug, t.Quota.Sandboxes, t.Quota.VCPUs, t.Quota.MemoryMB, t.Quota.DiskMB, t.Quota.EgressMB, micros(t.CreatedAt))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO members (team_id, user_id, role, joined_at) VALUES ($1, $2, $3, $4)", t.ID, owner, RoleOwner, micros(t.CreatedAt))
		return err
	})
}

// Team returns a team.
func (s *Store) Team(ctx context.Context, id string) (Team, error) {
	t, err := find(ctx, s.read, "team", id, scanTeam, "SELECT "+teamFields+" FROM teams WHERE id = $1", id)
	return t, s.fault(err)
}

// Teams returns all teams, the oldest first.
func (s *Store) Teams(ctx context.Context) ([]Team, error) {
	all, err := collect(ctx, s.read, scanTeam, "SELECT "+teamFields+" FROM teams ORDER BY created_at, id")
	return all, s.fault(err)
}

// FirstTeam returns the oldest team. NotFound: there is no team.
func (s *Store) FirstTeam(ctx context.Context) (Team, error) {
	t, err := firstTeam(ctx, s.read)
	return t, s.fault(err)
}

func firstTeam(ctx context.Context, from querier) (Team, error) {
	return find(ctx, from, "team", "", scanTeam, "SELECT "+teamFields+" FROM teams ORDER BY created_at, id LIMIT 1")
}

// RenameTeam changes the name of a team. It is idempotent.
func (s *Store) RenameTeam(ctx context.Context, id, name string) error {
	return s.changeOne(ctx, "team", id, "UPDATE teams SET name = $1 WHERE id = $2", name, id)
}

// SetQuota changes the quota of a team. It is idempotent. If the team uses more than its new quota,
// it keeps its sandboxes. But if it has sent more than EgressMB in this month, its sandboxes are
// paused.
func (s *Store) SetQuota(ctx context.Context, id string, q Quota) error {
	return s.changeOne(ctx, "team", id, "UPDATE teams SET max_sandboxes = $1, max_vcpus = $2, max_memory_mb = $3, max_disk_mb = $4, max_egress_mb = $5 WHERE id = $6",
		q.Sandboxes, q.VCPUs, q.MemoryMB, q.DiskMB, q.EgressMB, id)
}

// RemoveTeam removes a team with its members, sessions, keys and audit log. Precondition: it has
// sandboxes or templates, or it is the first team.
func (s *Store) RemoveTeam(ctx context.Context, id string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, id); err != nil {
			return err
		}
		return s.removeTeam(ctx, tx, id)
	})
}

func (s *Store) removeTeam(ctx context.Context, tx *sql.Tx, id string) error {
	first, err := firstTeam(ctx, tx)
	if err != nil {
		return err
	}
	if first.ID == id {
		return fault.New(fault.Precondition, "delete team", id, "the owners of the first team are the operators of the server")
	}
	var sandboxes, templates int
	err = tx.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM sandboxes WHERE team_id = $1), (SELECT COUNT(*) FROM templates WHERE team_id = $1)", id).Scan(&sandboxes, &templates)
	if err != nil {
		return err
	}
	if sandboxes+templates > 0 {
		return fault.New(fault.Precondition, "delete team", id, "it has %d sandboxes and %d snapshots", sandboxes, templates).WithHint("delete them first")
	}
	s.readers.changed(tx, id) // each reader finds no team, and ends
	_, err = tx.ExecContext(ctx, "DELETE FROM teams WHERE id = $1", id)
	return err
}
