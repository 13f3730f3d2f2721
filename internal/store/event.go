package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// EventKind says what was done in a workspace.
type EventKind string

// The kinds: what has no record of its own.
const (
	EventWrite           EventKind = "write"            // a file was written
	EventPatch           EventKind = "patch"            // a patch was applied
	EventSync            EventKind = "sync"             // files of the host were brought in
	EventExport          EventKind = "export"           // files, or its disks, were copied to the host
	EventShell           EventKind = "shell"            // a shell was opened
	EventSnapshotDeleted EventKind = "snapshot_deleted" //
)

// Event is something that was done in a workspace.
type Event struct {
	Kind     EventKind
	Sequence int // from 1 on, for each kind: that of the last is how many there were
	At       time.Time
	Detail   Detail
}

// Detail tells what was done: of each kind what it has.
type Detail struct {
	Path         string   `json:"path,omitempty"`     // that was written or exported, or where files were brought
	Paths        []string `json:"paths,omitempty"`    // of a patch, the first
	Host         string   `json:"host,omitempty"`     // the path there
	Artifact     string   `json:"artifact,omitempty"` // what was exported
	Name         string   `json:"name,omitempty"`     // of the shell or the snapshot
	Files        int      `json:"files,omitempty"`
	Bytes        int64    `json:"bytes,omitempty"`
	LinesAdded   int      `json:"lines_added,omitempty"`
	LinesRemoved int      `json:"lines_removed,omitempty"`
}

// Bounds of events, of which a workspace so has some 300 KiB at most.
const (
	KeptEvents = 20   // of each kind; the oldest go first
	KeptPaths  = 10   // of a patch
	KeptText   = 1024 // bytes of each text; what is longer is cut, and ends in …
)

// Texts changes each text of a detail.
func (d Detail) Texts(change func(string) string) Detail {
	for _, text := range []*string{&d.Path, &d.Host, &d.Name} {
		*text = change(*text)
	}
	var paths []string
	for _, path := range d.Paths[:min(len(d.Paths), KeptPaths)] {
		paths = append(paths, change(path))
	}
	d.Paths = paths
	return d
}

// cut keeps a text within its bound.
func cut(text string) string {
	if len(text) <= KeptText {
		return text
	}
	return strings.ToValidUTF8(text[:KeptText-len("…")], "") + "…"
}

// Note adds an event of an operation that began at a time. One that began before the last reset, or whose workspace is gone, is dropped.
func (s *Store) Note(ctx context.Context, id string, e Event, began time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error { return note(ctx, tx, id, e, began) })
}

func note(ctx context.Context, tx *sql.Tx, id string, e Event, began time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO events (workspace_id, kind, sequence, at, detail)
		SELECT w.id, $2, 1 + (SELECT coalesce(max(sequence), 0) FROM events WHERE workspace_id = w.id AND kind = $2), $3, $4
		FROM workspaces w WHERE w.id = $1 AND w.last_reset_at <= $5`, id, e.Kind, nanos(e.At), text(e.Detail.Texts(cut)), nanos(began))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM events WHERE workspace_id = $1 AND kind = $2
		AND sequence <= (SELECT max(sequence) FROM events WHERE workspace_id = $1 AND kind = $2) - $3`, id, e.Kind, KeptEvents)
	return err
}

func scanEvent(row row) (e Event, err error) {
	var detail string
	var when int64
	if err := row.Scan(&e.Kind, &e.Sequence, &when, &detail); err != nil {
		return e, err
	}
	e.At = at(when)
	if err := json.Unmarshal([]byte(detail), &e.Detail); err != nil {
		return e, fault.New(fault.Corrupt, "read event", string(e.Kind), "%w", err)
	}
	return e, nil
}
