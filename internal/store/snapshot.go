package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Snapshot is a named state of a workspace. The baseline is not stored as a Snapshot, because it
// can't be deleted.
type Snapshot struct {
	Name      string
	Disks     Disks
	Whole     bool // includes the root disk
	SizeBytes int64
	CreatedAt time.Time
}

// Temporary reports whether the snapshot was taken only for a fork or a template. Such a snapshot
// exists only while its workspace is locked, and no list shows it.
func (s Snapshot) Temporary() bool { return strings.HasPrefix(s.Name, ".") }

// AddSnapshot stores a snapshot and sets the workspace's disks to d, in one transaction. If the
// name is in use, the error has the kind Exists.
func (s *Store) AddSnapshot(ctx context.Context, id string, snapshot Snapshot, d Disks) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := setDisks(ctx, tx, id, d); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, `INSERT INTO snapshots (workspace_id, name, disks, whole, size_bytes, created_at)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			id, snapshot.Name, text(snapshot.Disks), snapshot.Whole, snapshot.SizeBytes, nanos(snapshot.CreatedAt))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return fault.New(fault.Exists, "create snapshot", snapshot.Name, "the workspace has a snapshot with this name").
			WithHint("%s", fault.Act("snapshot_delete", "pyro workspace snapshot delete %s %s", id, snapshot.Name).Taking("snapshot_name %q", snapshot.Name))
	})
}

const snapshotColumns = "name, disks, whole, size_bytes, created_at"

func scanSnapshot(row row) (n Snapshot, err error) {
	var disks string
	var created int64
	if err := row.Scan(&n.Name, &disks, &n.Whole, &n.SizeBytes, &created); err != nil {
		return n, err
	}
	n.CreatedAt = at(created)
	if err := json.Unmarshal([]byte(disks), &n.Disks); err != nil {
		return n, fault.New(fault.Corrupt, "read snapshot", n.Name, "%w", err)
	}
	return n, nil
}

// Snapshots returns the snapshots of a workspace, oldest first.
func (s *Store) Snapshots(ctx context.Context, id string) ([]Snapshot, error) {
	return collect(ctx, s, scanSnapshot, "SELECT "+snapshotColumns+" FROM snapshots WHERE workspace_id = $1 ORDER BY created_at, name", id)
}

// Snapshot returns a snapshot by name.
func (s *Store) Snapshot(ctx context.Context, id, name string) (Snapshot, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	n, err := scanSnapshot(db.QueryRowContext(ctx, "SELECT "+snapshotColumns+" FROM snapshots WHERE workspace_id = $1 AND name = $2", id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return n, noSnapshot(id, name)
	}
	return n, s.fault(err)
}

// DeleteSnapshot deletes the record of a snapshot and adds events in one transaction.
func (s *Store) DeleteSnapshot(ctx context.Context, id, name string, events ...Event) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "DELETE FROM snapshots WHERE workspace_id = $1 AND name = $2", id, name)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, noSnapshot(id, name))
		}
		for _, e := range events {
			if err := addEvent(ctx, tx, id, e, e.At); err != nil {
				return err
			}
		}
		return nil
	})
}

func noSnapshot(id, name string) error {
	return fault.New(fault.NotFound, "find snapshot", name, "workspace %s has no snapshot with this name", id).WithHint("%s", fault.Act("snapshot_list", "pyro workspace snapshot list %s", id))
}
