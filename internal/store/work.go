package store

import (
	"context"
	"database/sql"
)

// Work is a consistent view of everything done in a workspace since it was created or last reset.
type Work struct {
	Workspace
	FailedCount int       // commands with an exit code other than 0
	Commands    []Command // the last RecentCommands, oldest first, without output
	Services    []Service // sorted by name
	Snapshots   []Snapshot
	Events      []Event // the last MaxEvents of each kind, oldest first
}

// RecentCommands is the maximum number of commands in a Work.
const RecentCommands = 20

// Work returns the Work of a workspace.
func (s *Store) Work(ctx context.Context, id string) (w Work, err error) {
	db, err := s.connected(ctx)
	if err != nil {
		return w, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return w, s.fault(err)
	}
	defer tx.Rollback()
	if w.Workspace, err = scanWorkspace(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM workspaces w WHERE id = $1", id)); err != nil {
		return w, s.missing(err, id)
	}
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM commands WHERE workspace_id = $1 AND ended_at != 0
		AND (json_extract(result, '$.exit_code') != 0 OR coalesce(json_extract(result, '$.timed_out'), 0))`, id).Scan(&w.FailedCount)
	if err != nil {
		return w, s.fault(err)
	}
	w.Commands, err = collectFrom(ctx, s, tx, func(row row) (Command, error) { return scanCommand(row, id) }, `SELECT * FROM (
		SELECT sequence, argv, cwd, started_at, ended_at, result, x'', x'' FROM commands WHERE workspace_id = $1 ORDER BY sequence DESC LIMIT $2
		) ORDER BY sequence`, id, RecentCommands)
	if err != nil {
		return w, err
	}
	if w.Services, err = collectFrom(ctx, s, tx, scanService, "SELECT "+serviceColumns+" FROM services WHERE workspace_id = $1 ORDER BY name", id); err != nil {
		return w, err
	}
	w.Snapshots, err = collectFrom(ctx, s, tx, scanSnapshot, "SELECT "+snapshotColumns+" FROM snapshots WHERE workspace_id = $1 ORDER BY created_at, name", id)
	if err != nil {
		return w, err
	}
	w.Events, err = collectFrom(ctx, s, tx, scanEvent, "SELECT kind, sequence, at, detail FROM events WHERE workspace_id = $1 ORDER BY kind, sequence", id)
	return w, err
}
