package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// EventKind is the kind of an event in a workspace.
type EventKind string

// Kinds of events. Operations that are stored in another table, such as commands, are not events.
const (
	EventWrite           EventKind = "write"  // a file was written
	EventPatch           EventKind = "patch"  // a patch was applied
	EventSync            EventKind = "sync"   // files of the host were copied into the workspace.
	EventExport          EventKind = "export" // files or disks were copied to the host.
	EventShell           EventKind = "shell"  // a shell was opened.
	EventSnapshotDeleted EventKind = "snapshot_deleted"
)

// Event is an operation on a workspace.
type Event struct {
	Kind     EventKind
	Sequence int // starts at 1 for each kind, so the last number is the number of events
	At       time.Time
	Detail   Detail
}

// Detail contains the details of an event. The fields depend on the kind.
type Detail struct {
	Path         string   `json:"path,omitempty"`     // written or exported path, or the destination of copied files
	Paths        []string `json:"paths,omitempty"`    // the first paths of a patch.
	Host         string   `json:"host,omitempty"`     // path on the host.
	Artifact     string   `json:"artifact,omitempty"` // kind of export
	Name         string   `json:"name,omitempty"`     // name of the shell or the snapshot
	Files        int      `json:"files,omitempty"`
	Bytes        int64    `json:"bytes,omitempty"`
	LinesAdded   int      `json:"lines_added,omitempty"`
	LinesRemoved int      `json:"lines_removed,omitempty"`
}

// Limits of events. The events of a workspace take at most about 300 KiB.
const (
	MaxEvents     = 20   // per kind; the oldest are deleted
	MaxEventPaths = 10   // per patch
	MaxEventText  = 1024 // bytes per string; longer strings are cut and end in …
)

// Texts returns a copy of d. It applies the function change to Path, Host, Name and each of the
// first MaxEventPaths paths, and omits the other paths.
func (d Detail) Texts(change func(string) string) Detail {
	for _, text := range []*string{&d.Path, &d.Host, &d.Name} {
		*text = change(*text)
	}
	var paths []string
	for _, path := range d.Paths[:min(len(d.Paths), MaxEventPaths)] {
		paths = append(paths, change(path))
	}
	d.Paths = paths
	return d
}

// cut truncates a string to MaxEventText bytes.
func cut(text string) string {
	if len(text) <= MaxEventText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxEventText-len("…")], "") + "…"
}

// AddEvent adds an event for an operation that started at the time began. It discards the event if
// the workspace has been reset since that time, or no longer exists.
func (s *Store) AddEvent(ctx context.Context, id string, e Event, began time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error { return addEvent(ctx, tx, id, e, began) })
}

func addEvent(ctx context.Context, tx *sql.Tx, id string, e Event, began time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO events (workspace_id, kind, sequence, at, detail)
		SELECT w.id, $2, 1 + (SELECT coalesce(max(sequence), 0) FROM events WHERE workspace_id = w.id AND kind = $2), $3, $4
		FROM workspaces w WHERE w.id = $1 AND w.last_reset_at <= $5`, id, e.Kind, nanos(e.At), text(e.Detail.Texts(cut)), nanos(began))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM events WHERE workspace_id = $1 AND kind = $2
		AND sequence <= (SELECT max(sequence) FROM events WHERE workspace_id = $1 AND kind = $2) - $3`, id, e.Kind, MaxEvents)
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
