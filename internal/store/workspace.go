package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Kind is the kind of a record.
type Kind string

// Kinds of records.
const (
	KindWorkspace Kind = "workspace" // it outlives its machines, and is stopped when it expires.
	KindVM        Kind = "vm"        // a single machine, which is deleted when it expires.
	KindTemplate  Kind = "template"  // a former workspace that is the source of sandboxes; it never runs or changes
)

// Prefixes of ids, by kind.
const (
	WorkspacePrefix = "ws-"
	VMPrefix        = "vm-"
)

// Workspace is the record of a workspace, VM or template.
type Workspace struct {
	ID     string
	Kind   Kind
	Name   string            // name for users; not unique
	Labels map[string]string // for users
	Spec   Spec
	Disks  Disks

	Secrets []Secret // encrypted; AddWorkspace stores them, but they are not set in results: see Store.Secrets

	CreatedAt      time.Time
	LastActivityAt time.Time
	ExpiresAt      time.Time // zero: never
	ResetCount     int
	LastResetAt    time.Time // zero: never
	Starts         int       // number of starts

	// These counts are set only in results. An open service is a service whose end was not
	// observed.
	CommandCount, ServiceCount, OpenServiceCount int
}

const columns = `id, kind, name, labels, spec, disks, created_at, last_activity_at, expires_at, reset_count, last_reset_at, starts,
	(SELECT count(*) FROM commands c WHERE c.workspace_id = w.id), (SELECT count(*) FROM services s WHERE s.workspace_id = w.id),
	(SELECT count(*) FROM services s WHERE s.workspace_id = w.id AND s.ended_at = 0)`

func scanWorkspace(row row) (w Workspace, err error) {
	var labels, spec, disks string
	var created, active, expires, reset int64
	if err := row.Scan(&w.ID, &w.Kind, &w.Name, &labels, &spec, &disks, &created, &active, &expires, &w.ResetCount, &reset, &w.Starts,
		&w.CommandCount, &w.ServiceCount, &w.OpenServiceCount); err != nil {
		return w, err
	}
	w.CreatedAt, w.LastActivityAt, w.ExpiresAt, w.LastResetAt = at(created), at(active), at(expires), at(reset)
	err = errors.Join(json.Unmarshal([]byte(labels), &w.Labels), json.Unmarshal([]byte(spec), &w.Spec), json.Unmarshal([]byte(disks), &w.Disks))
	if err != nil {
		return w, fault.New(fault.Corrupt, "read record", w.ID, "%w", err)
	}
	return w, nil
}

// at and nanos convert between times and stored nanoseconds.
func at(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // can't happen: all types of this package can be encoded
	}
	return string(b)
}

// AddWorkspace adds a record and its secrets. The id must be new.
func (s *Store) AddWorkspace(ctx context.Context, w Workspace) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		labels := w.Labels
		if labels == nil {
			labels = map[string]string{}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO workspaces
			(id, kind, name, labels, spec, disks, created_at, last_activity_at, expires_at, starts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			w.ID, w.Kind, w.Name, text(labels), text(w.Spec), text(w.Disks), nanos(w.CreatedAt), nanos(w.LastActivityAt), nanos(w.ExpiresAt), w.Starts)
		if err != nil {
			return err
		}
		return addSecrets(ctx, tx, w.ID, w.Secrets)
	})
}

// Workspace returns the record with an id.
func (s *Store) Workspace(ctx context.Context, id string) (Workspace, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return Workspace{}, err
	}
	w, err := scanWorkspace(db.QueryRowContext(ctx, "SELECT "+columns+" FROM workspaces w WHERE id = $1", id))
	return w, s.missing(err, id)
}

// missing converts a missing row to a NotFound error.
func (s *Store) missing(err error, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.NotFound, "find workspace", id, "no workspace has this ID or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return s.fault(err)
}

// Workspaces returns all records of a kind, the last active one first.
func (s *Store) Workspaces(ctx context.Context, kind Kind) ([]Workspace, error) {
	return collect(ctx, s, scanWorkspace, "SELECT "+columns+" FROM workspaces w WHERE kind = $1 ORDER BY last_activity_at DESC, id", kind)
}

// Digests returns the digests of all environment images that records use.
func (s *Store) Digests(ctx context.Context) (map[string]bool, error) {
	digests := map[string]bool{}
	for _, kind := range []Kind{KindWorkspace, KindVM, KindTemplate} {
		all, err := s.Workspaces(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			digests[w.Spec.Digest] = true
		}
	}
	return digests, nil
}

// Update calls the function change to modify the name, the labels and the settings of a record, and
// stores them. If change fails, nothing changes.
func (s *Store) Update(ctx context.Context, id string, change func(w *Workspace) error) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		w, err := scanWorkspace(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM workspaces w WHERE id = $1", id))
		if err != nil {
			return s.missing(err, id)
		}
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		if err := change(&w); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE workspaces SET name = $1, labels = $2, spec = $3 WHERE id = $4", w.Name, text(w.Labels), text(w.Spec), id)
		return err
	})
}

// Active records the last activity of a workspace and its expiry. It does nothing if a later
// activity is already recorded.
func (s *Store) Active(ctx context.Context, id string, last, expires time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error { return active(ctx, tx, id, last, expires) })
}

func active(ctx context.Context, tx *sql.Tx, id string, last, expires time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE workspaces SET last_activity_at = $1, expires_at = $2 WHERE id = $3 AND last_activity_at <= $1", nanos(last), nanos(expires), id)
	return err
}

// Started records the start of a machine that has booted. If the end of a service or a command was
// not observed, Started records that it ended with its machine.
func (s *Store) Started(ctx context.Context, id string, last, expires time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE workspaces SET starts = starts + 1, spec = json_remove(spec, '$.machine') WHERE id = $1", id); err != nil {
			return err
		}
		for _, table := range []string{"services", "commands"} {
			_, err := tx.ExecContext(ctx, "UPDATE "+table+" SET ended_at = $1, result = json_set(result, '$.broken', $2) WHERE workspace_id = $3 AND ended_at = 0",
				nanos(last), MachineEnded, id)
			if err != nil {
				return err
			}
		}
		return active(ctx, tx, id, last, expires)
	})
}

// MachineEnded is the reason why the end of a service or a command was not observed.
const MachineEnded = "its machine ended"

// SetDisks sets the disks of the next machine.
func (s *Store) SetDisks(ctx context.Context, id string, d Disks) error {
	return s.write(ctx, func(tx *sql.Tx) error { return setDisks(ctx, tx, id, d) })
}

func setDisks(ctx context.Context, tx *sql.Tx, id string, d Disks) error {
	r, err := tx.ExecContext(ctx, "UPDATE workspaces SET disks = $1 WHERE id = $2 AND kind <> $3", text(d), id, KindTemplate)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, error(fault.New(fault.NotFound, "find workspace", id, "no workspace has this ID or name")))
	}
	return nil
}

// Reset sets the disks of the next machine and deletes the history, the services and the events.
func (s *Store) Reset(ctx context.Context, id string, d Disks, when time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := setDisks(ctx, tx, id, d); err != nil {
			return err
		}
		if err := deleteHistory(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE workspaces SET reset_count = reset_count + 1, last_reset_at = $1 WHERE id = $2", nanos(when), id)
		return err
	})
}

// deleteHistory deletes the history, the services and the events.
func deleteHistory(ctx context.Context, tx *sql.Tx, id string) error {
	for _, table := range []string{"commands", "services", "events"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE workspace_id = $1", id); err != nil {
			return err
		}
	}
	return nil
}

// MakeTemplate turns a workspace into a template with the given labels, spec and disks, and deletes
// its history. If there is no such workspace, the error has the kind NotFound.
func (s *Store) MakeTemplate(ctx context.Context, id string, labels map[string]string, spec Spec, d Disks) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "UPDATE workspaces SET kind = $1, name = '', labels = $2, spec = $3, disks = $4, expires_at = 0 WHERE id = $5 AND kind = $6",
			KindTemplate, text(labels), text(spec), text(d), id, KindWorkspace)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, error(fault.New(fault.NotFound, "find workspace", id, "no workspace has this ID or name")))
		}
		return deleteHistory(ctx, tx, id)
	})
}

// Delete deletes a record with everything that belongs to it. It does nothing if the record does
// not exist.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM workspaces WHERE id = $1", id)
		return err
	})
}
