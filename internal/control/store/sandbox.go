package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Wanted is the desired state of a sandbox. The control plane asks its host to bring the sandbox
// into this state.
type Wanted string

// The wanted states.
const (
	WantRunning Wanted = "running"
	WantPaused  Wanted = "paused"
	WantDeleted Wanted = "deleted"
)

// Sandbox is the record of a sandbox. The record has the wanted state and the last report of the
// host. Only the host knows whether the sandbox runs.
type Sandbox struct {
	ID     string
	TeamID string
	HostID string

	Wanted Wanted
	Status string // one of the statuses of the host agent; StatusPending before its first report
	Made   bool   // the host has created it, so it was or will be acknowledged

	Template   string // the name of a template of the team, or of an environment of the host
	TemplateID string // empty: an environment
	VCPUs      int64
	MemoryMB   int64
	DiskMB     int64
	TimeoutSec int64
	Metadata   map[string]string // of the user
	ParentID   string            // the sandbox that this is a fork of; empty: none
	CreatedBy  string            // the id of a user or of a key

	CreatedAt time.Time
	StartedAt time.Time // zero: it has not started
	ActiveAt  time.Time // zero: unknown
	UpdatedAt time.Time
}

// keyTime is the lifetime of an idempotency key.
const keyTime = 24 * time.Hour

// StatusPending is the status of a sandbox that its host has not created yet.
const StatusPending = "pending"

const sandboxFields = `id, team_id, host_id, wanted, status, made, template, vcpus, memory_mb, disk_mb, timeout_sec, metadata, parent_id,
	created_by, created_at, started_at, active_at, updated_at, template_id`

func scanSandbox(r row) (b Sandbox, err error) {
	var made, created, started, active, updated int64
	var metadata string
	err = r.Scan(&b.ID, &b.TeamID, &b.HostID, &b.Wanted, &b.Status, &made, &b.Template, &b.VCPUs, &b.MemoryMB, &b.DiskMB, &b.TimeoutSec, &metadata,
		&b.ParentID, &b.CreatedBy, &created, &started, &active, &updated, &b.TemplateID)
	if err != nil {
		return b, err
	}
	b.Made, b.CreatedAt, b.StartedAt, b.ActiveAt, b.UpdatedAt = made != 0, moment(created), moment(started), moment(active), moment(updated)
	return b, json.Unmarshal([]byte(metadata), &b.Metadata)
}

// NewSandbox is the request for a new record.
type NewSandbox struct {
	Sandbox
	// Key makes the request idempotent within a team: a second request with the same Key and the
	// same Request finds the first sandbox, for keyTime. Empty: no idempotency.
	Key     string
	Request string // a digest of the client's request
}

// AddSandbox adds the record of a sandbox before its host creates it. If an earlier request with
// the same key has added the record, found is true. Exhausted: the team would exceed its quota.
// Precondition: the key belongs to another request, or its sandbox was deleted.
func (s *Store) AddSandbox(ctx context.Context, n NewSandbox) (b Sandbox, found bool, err error) {
	metadata, err := json.Marshal(n.Metadata)
	if err != nil {
		return b, false, err
	}
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		if err := lockTeam(ctx, tx, n.TeamID); err != nil {
			return err
		}
		if b, found, err = earlier(ctx, tx, n); err != nil || found {
			return err
		}
		if err := checkQuota(ctx, tx, Used{Sandboxes: 1, VCPUs: n.VCPUs, MemoryMB: n.MemoryMB, DiskMB: n.DiskMB}, n.TeamID, n.CreatedAt); err != nil {
			return err
		}
		if err := checkTemplate(ctx, tx, n.Sandbox); err != nil {
			return err
		}
		b = n.Sandbox
		_, err = tx.ExecContext(ctx, "INSERT INTO sandboxes ("+sandboxFields+`) VALUES
			($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
			b.ID, b.TeamID, b.HostID, b.Wanted, b.Status, number(b.Made), b.Template, b.VCPUs, b.MemoryMB, b.DiskMB, b.TimeoutSec, string(metadata),
			b.ParentID, b.CreatedBy, micros(b.CreatedAt), micros(b.StartedAt), micros(b.ActiveAt), micros(b.UpdatedAt), b.TemplateID)
		if err != nil {
			return err
		}
		if err := s.addEvent(ctx, tx, b.TeamID, EventSandboxCreated, b.ID, created(b)); err != nil || n.Key == "" {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO idempotency (team_id, key, request, sandbox_id, created_at) VALUES ($1, $2, $3, $4, $5)",
			b.TeamID, n.Key, n.Request, b.ID, micros(b.CreatedAt))
		return err
	})
	return b, found, err
}

// created returns the data of the event for a new sandbox.
func created(b Sandbox) map[string]string {
	data := map[string]string{"status": b.Status, "template": b.Template}
	if b.ParentID != "" {
		data["parent_id"] = b.ParentID
	}
	return data
}

// earlier returns the sandbox of an earlier request with the same key. It also removes expired keys
// of the team.
func earlier(ctx context.Context, tx *sql.Tx, n NewSandbox) (b Sandbox, found bool, err error) {
	if n.Key == "" {
		return b, false, nil
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM idempotency WHERE team_id = $1 AND created_at <= $2", n.TeamID, micros(n.CreatedAt.Add(-keyTime))); err != nil {
		return b, false, err
	}
	var request, id string
	err = tx.QueryRowContext(ctx, "SELECT request, sandbox_id FROM idempotency WHERE team_id = $1 AND key = $2", n.TeamID, n.Key).Scan(&request, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return b, false, nil
	case err != nil:
		return b, false, err
	case request != n.Request:
		return b, false, fault.New(fault.Precondition, "create sandbox", "", "another request had the same idempotency key").WithHint("use a new key")
	}
	b, err = sandbox(ctx, tx, n.TeamID, id)
	if fault.KindOf(err) == fault.NotFound {
		err = fault.New(fault.Precondition, "create sandbox", id, "the sandbox with this idempotency key was deleted").WithHint("use a new key")
	}
	return b, true, err
}

// Sandbox returns a sandbox of a team. NotFound: the team has no sandbox with this ID, or the
// sandbox is deleted.
func (s *Store) Sandbox(ctx context.Context, team, id string) (Sandbox, error) {
	b, err := sandbox(ctx, s.read, team, id)
	return b, s.fault(err)
}

func sandbox(ctx context.Context, from querier, team, id string) (Sandbox, error) {
	return find(ctx, from, "sandbox", id, scanSandbox, "SELECT "+sandboxFields+" FROM sandboxes WHERE team_id = $1 AND id = $2 AND wanted <> $3", team, id, WantDeleted)
}

// Sandboxes returns the sandboxes of a team, the latest first. Sandboxes with the same time are
// sorted by ID.
func (s *Store) Sandboxes(ctx context.Context, team string) ([]Sandbox, error) {
	// The index has the order of the times, but not of the IDs. With both in ORDER BY, SQLite
	// copies each row into a sorter, which makes lists of 1,000 rows about 10 % slower.
	all, err := collect(ctx, s.read, scanSandbox, "SELECT "+sandboxFields+` FROM sandboxes WHERE team_id = $1 AND wanted <> $2
		ORDER BY created_at DESC`, team, WantDeleted)
	slices.SortFunc(all, func(a, b Sandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return all, s.fault(err)
}

// SandboxesOf returns all sandboxes of a host, including deleted ones that the host may still have.
func (s *Store) SandboxesOf(ctx context.Context, host string) ([]Sandbox, error) {
	all, err := collect(ctx, s.read, scanSandbox, "SELECT "+sandboxFields+" FROM sandboxes WHERE host_id = $1 ORDER BY created_at, id", host)
	return all, s.fault(err)
}

// Statuses returns the number of sandboxes of all teams, by status.
func (s *Store) Statuses(ctx context.Context) (map[string]int, error) {
	type group struct {
		status string
		n      int
	}
	groups, err := collect(ctx, s.read, func(r row) (g group, err error) { return g, r.Scan(&g.status, &g.n) },
		"SELECT status, COUNT(*) FROM sandboxes WHERE wanted <> $1 GROUP BY status", WantDeleted)
	all := map[string]int{}
	for _, g := range groups {
		all[g.status] = g.n
	}
	return all, s.fault(err)
}

// Record returns the record of a sandbox of any team, even if the sandbox is deleted but its host
// may still have it.
func (s *Store) Record(ctx context.Context, id string) (Sandbox, error) {
	b, err := record(ctx, s.read, id)
	return b, s.fault(err)
}

func record(ctx context.Context, from querier, id string) (Sandbox, error) {
	return find(ctx, from, "sandbox", id, scanSandbox, "SELECT "+sandboxFields+" FROM sandboxes WHERE id = $1", id)
}

// SetWanted sets the wanted state of a sandbox. NotFound: the sandbox is deleted. If a sandbox is
// deleted before its host has created it, its idempotency key can be used again.
func (s *Store) SetWanted(ctx context.Context, team, id string, w Wanted, now time.Time) (b Sandbox, err error) {
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		if b, err = sandbox(ctx, tx, team, id); err != nil {
			return err
		}
		if w == WantRunning && b.Wanted == WantPaused {
			if err := checkQuota(ctx, tx, Used{VCPUs: b.VCPUs, MemoryMB: b.MemoryMB}, b.TeamID, now); err != nil {
				return err
			}
		}
		if w == WantDeleted {
			if err := freeKey(ctx, tx, id); err != nil {
				return err
			}
			// From now on, lists and searches do not return the sandbox.
			if err := s.addEvent(ctx, tx, team, EventSandboxRemoved, id, nil); err != nil {
				return err
			}
		}
		b.Wanted, b.UpdatedAt = w, now
		_, err = tx.ExecContext(ctx, "UPDATE sandboxes SET wanted = $1, updated_at = $2 WHERE id = $3", w, micros(now), id)
		return err
	})
	return b, err
}

// Report records the state that the host of a sandbox reports. It also marks the sandbox as made.
// If the sandbox was removed, it does nothing.
func (s *Store) Report(ctx context.Context, id, status string, started, active, now time.Time) error {
	return s.changeRecord(ctx, id, func(tx *sql.Tx, b Sandbox) error {
		if b.Status != status && b.Wanted != WantDeleted {
			if err := s.addEvent(ctx, tx, b.TeamID, EventSandboxStatus, id, map[string]string{"status": status}); err != nil {
				return err
			}
		}
		if err := recordRunning(ctx, tx, b, status == statusRunning, now); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE sandboxes SET status = $1, made = 1, started_at = $2, active_at = $3, updated_at = $4
			WHERE id = $5 AND (status <> $1 OR made = 0 OR started_at <> $2 OR active_at <> $3)`, status, micros(started), micros(active), micros(now), id)
		return err
	})
}

// SetActive records the time of the last activity of a sandbox, if it is later than the recorded
// time.
func (s *Store) SetActive(ctx context.Context, id string, at time.Time) error {
	return s.exec(ctx, "UPDATE sandboxes SET active_at = $1 WHERE id = $2 AND active_at < $1", micros(at), id)
}

// Forget removes the record of a sandbox that its host no longer has. If the host never created it,
// its idempotency key can be used again. Forget is idempotent.
func (s *Store) Forget(ctx context.Context, id string) error {
	return s.changeRecord(ctx, id, func(tx *sql.Tx, b Sandbox) error {
		if err := freeKey(ctx, tx, id); err != nil {
			return err
		}
		return s.forget(ctx, tx, b, time.Now())
	})
}

// freeKey removes the idempotency key of a sandbox that its host has not created.
func freeKey(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM idempotency WHERE sandbox_id = $1 AND sandbox_id IN (SELECT id FROM sandboxes WHERE id = $1 AND made = 0)", id)
	return err
}

// forget removes the record of a sandbox. The caller has locked its team.
func (s *Store) forget(ctx context.Context, tx *sql.Tx, b Sandbox, now time.Time) error {
	if b.Wanted != WantDeleted {
		if err := s.addEvent(ctx, tx, b.TeamID, EventSandboxRemoved, b.ID, nil); err != nil {
			return err
		}
	}
	if err := recordRunning(ctx, tx, b, false, now); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM sandboxes WHERE id = $1", b.ID)
	return err
}

// changeRecord locks the team of a sandbox, and runs do in a transaction with the record of the
// sandbox. If there is no such record, it does nothing.
func (s *Store) changeRecord(ctx context.Context, id string, do func(tx *sql.Tx, b Sandbox) error) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		b, err := lockRecord(ctx, tx, id)
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return do(tx, b)
	})
}

// lockRecord locks the team that owns a sandbox, and returns the sandbox.
func lockRecord(ctx context.Context, tx *sql.Tx, id string) (Sandbox, error) {
	b, err := record(ctx, tx, id)
	if err != nil {
		return b, err
	}
	if err := lockTeam(ctx, tx, b.TeamID); err != nil {
		return b, err
	}
	return record(ctx, tx, id) // it may have changed before the lock
}
