package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Used is the part of its quota that a team uses. EgressMB is rounded down.
type Used struct {
	Sandboxes, VCPUs, MemoryMB, DiskMB, EgressMB int64
}

// Paused sandboxes use neither processors nor memory. A sandbox or template that is being deleted
// counts until its host has removed it. Templates use only disk.
const usedBy = `SELECT COUNT(*), COALESCE(SUM(CASE WHEN wanted = 'paused' THEN 0 ELSE vcpus END), 0),
	COALESCE(SUM(CASE WHEN wanted = 'paused' THEN 0 ELSE memory_mb END), 0), COALESCE(SUM(disk_mb), 0) +
	(SELECT COALESCE(SUM(disk_mb), 0) FROM templates WHERE team_id = $1 AND made = 1), COALESCE((SELECT bytes / 1048576 FROM egress WHERE team_id = $1 AND month = $2), 0)
	FROM sandboxes WHERE team_id = $1`

func scanUsed(r row) (u Used, err error) {
	return u, r.Scan(&u.Sandboxes, &u.VCPUs, &u.MemoryMB, &u.DiskMB, &u.EgressMB)
}

// Used returns the current use of a team.
func (s *Store) Used(ctx context.Context, team string, now time.Time) (Used, error) {
	u, err := scanUsed(s.read.QueryRowContext(ctx, usedBy, team, month(now)))
	return u, s.fault(err)
}

// checkQuota fails with Exhausted if a team would exceed its quota with the additional resources
// more.
func checkQuota(ctx context.Context, tx *sql.Tx, more Used, team string, now time.Time) error {
	t, err := find(ctx, tx, "team", team, scanTeam, "SELECT "+teamFields+" FROM teams WHERE id = $1", team)
	if err != nil {
		return err
	}
	u, err := scanUsed(tx.QueryRowContext(ctx, usedBy, team, month(now)))
	if err != nil {
		return err
	}
	for _, q := range []struct {
		unit            string
		most, used, add int64
	}{
		{"sandboxes", t.Quota.Sandboxes, u.Sandboxes, more.Sandboxes}, {"virtual processors", t.Quota.VCPUs, u.VCPUs, more.VCPUs},
		{"MB of memory", t.Quota.MemoryMB, u.MemoryMB, more.MemoryMB}, {"MB of disk", t.Quota.DiskMB, u.DiskMB, more.DiskMB},
	} {
		if q.add > 0 && q.most > 0 && q.used+q.add > q.most {
			return fault.New(fault.Exhausted, "start sandbox", "", "the team uses %d of %d %s, and the sandbox needs %d", q.used, q.most, q.unit, q.add).
				WithHint("pause or delete a sandbox, or ask an admin for more")
		}
	}
	if most := t.Quota.EgressMB; most > 0 && u.EgressMB >= most {
		return fault.New(fault.Exhausted, "start sandbox", "", "the team has sent %d of %d MB to other computers in this month", u.EgressMB, most).
			WithHint("wait for the next month, or ask an operator for more")
	}
	return nil
}
