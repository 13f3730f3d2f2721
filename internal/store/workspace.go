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

// Kind says what a record stands for.
type Kind string

// The kinds.
const (
	KindWorkspace Kind = "workspace" // outlives its machines: when its time is over it is stopped
	KindVM        Kind = "vm"        // one machine: when its time is over it is deleted
	KindTemplate  Kind = "template"  // was a workspace: others are made from it, and it never runs or changes again
)

// The beginnings of ids, by kind.
const (
	WorkspacePrefix = "ws-"
	VMPrefix        = "vm-"
)

// Workspace is the record of one.
type Workspace struct {
	ID     string
	Kind   Kind
	Name   string            // for people; need not be unique
	Labels map[string]string // for people
	Spec   Spec
	Disks  Disks

	Secrets []Secret // sealed; to be added with it, or to be used. Records that were read have none: see Store.Secrets

	CreatedAt      time.Time
	LastActivityAt time.Time
	ExpiresAt      time.Time // zero: never
	ResetCount     int
	LastResetAt    time.Time // zero: never
	Starts         int       // how often it was started

	// Read only: of its history, and of its services, of which as many have not ended that anybody saw.
	CommandCount, ServiceCount, OpenServiceCount int
}

// Spec is what of a workspace never changes.
type Spec struct {
	Environment string   `json:"environment"`
	Digest      string   `json:"digest,omitempty"` // of the environment's image
	Env         []string `json:"env,omitempty"`    // of every command, NAME=VALUE
	User        string   `json:"user,omitempty"`   // of every command
	Isolation   string   `json:"isolation"`
	Reason      string   `json:"reason,omitempty"` // why it is no stronger isolation, where that is worth telling
	VCPUCount   int      `json:"vcpu_count"`
	MemMiB      int      `json:"mem_mib"`
	DiskMiB     int      `json:"disk_mib,omitempty"`           // of /workspace; 0: DefaultDiskMiB
	TTLSeconds  int      `json:"ttl_seconds"`                  // 0: it never expires
	AutoPause   int      `json:"auto_pause_seconds,omitempty"` // it is paused when nothing was done with it for so long; 0: never
	Network     string   `json:"network"`                      // one of the policies
	Egress      Egress   `json:"egress,omitzero"`
	Seed        Seed     `json:"seed"`

	Secrets []SecretName `json:"secrets,omitempty"` // sorted by name
}

// The size of /workspace in MiB, if a specification gives none, and its bounds.
const (
	DefaultDiskMiB = 16 << 10
	MinDiskMiB     = 64
	MaxDiskMiB     = 16 << 10 // the size of the virtual disk that it is on
)

// Disk returns the size of /workspace, in MiB.
func (s Spec) Disk() int { return cmp.Or(s.DiskMiB, DefaultDiskMiB) }

// The policies of networks.
const (
	NetworkOff       = "off"
	NetworkEgress    = "egress"
	NetworkPublished = "egress+published-ports"
)

// Networked tells whether the machine has a network: with these policies, and no others.
func (s Spec) Networked() bool { return s.Network == NetworkEgress || s.Network == NetworkPublished }

// Egress is the rules of a network, as internal/network/egress reads them.
type Egress struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Expiry is when a workspace that was last active at a time is over: zero where it never is.
func (s Spec) Expiry(active time.Time) time.Time {
	if s.TTLSeconds <= 0 {
		return time.Time{}
	}
	return active.Add(time.Duration(s.TTLSeconds) * time.Second)
}

// Seed says how a workspace was first filled.
type Seed struct {
	Mode        string `json:"mode"` // empty, directory or archive
	Path        string `json:"path,omitempty"`
	OriginKind  string `json:"origin_kind,omitempty"` // project, path or empty
	OriginRef   string `json:"origin_ref,omitempty"`  // of a git checkout: BRANCH@COMMIT or COMMIT
	Files       int    `json:"files,omitempty"`
	Directories int    `json:"directories,omitempty"`
	Symlinks    int    `json:"symlinks,omitempty"`
	Skipped     int    `json:"skipped,omitempty"`
	Ignored     int    `json:"ignored,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	Fork        string `json:"fork,omitempty"` // the workspace whose copy this one is
}

// Disks name what a machine works on, or a snapshot keeps, by names of files or folders among those of the workspace.
type Disks struct {
	Volume   []string `json:"volume"`             // lowest first; the machine writes to the last
	Root     []string `json:"root,omitempty"`     // over the environment's image; likewise
	Baseline []string `json:"baseline,omitempty"` // the volume as the workspace was created, which is never written. A snapshot has none

	// Memory is what a machine was saved as that worked on these disks (machine.Saver): the workspace is paused. Empty: the next machine starts anew.
	Memory string `json:"memory,omitempty"`

	// FreshUntil is set where the volume is a tree that was made from the baseline: what was last changed before it, in nanoseconds, is as there.
	FreshUntil int64 `json:"fresh_until,omitempty"`
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

// at and nanos are the two ways between times and what is stored of them.
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
		panic(err) // the types of this package have no value that can't be written
	}
	return string(b)
}

// AddWorkspace adds a record, whose id nobody has, with its secrets.
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

// Workspace gives a record.
func (s *Store) Workspace(ctx context.Context, id string) (Workspace, error) {
	db, err := s.connected(ctx)
	if err != nil {
		return Workspace{}, err
	}
	w, err := scanWorkspace(db.QueryRowContext(ctx, "SELECT "+columns+" FROM workspaces w WHERE id = $1", id))
	return w, s.missing(err, id)
}

// missing says what is not there.
func (s *Store) missing(err error, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.NotFound, "find workspace", id, "there is none of this id or name").WithHint("%s", fault.Act("workspace_list", "pyro workspace list"))
	}
	return s.fault(err)
}

// Workspaces gives all records of a kind, the one that was last active first.
func (s *Store) Workspaces(ctx context.Context, kind Kind) ([]Workspace, error) {
	return collect(ctx, s, scanWorkspace, "SELECT "+columns+" FROM workspaces w WHERE kind = $1 ORDER BY last_activity_at DESC, id", kind)
}

// Digests gives the environments' images that are in use by some record.
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

// Rename changes name and labels.
func (s *Store) Rename(ctx context.Context, id string, change func(name *string, labels map[string]string) error) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		w, err := scanWorkspace(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM workspaces w WHERE id = $1", id))
		if err != nil {
			return s.missing(err, id)
		}
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		if err := change(&w.Name, w.Labels); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE workspaces SET name = $1, labels = $2 WHERE id = $3", w.Name, text(w.Labels), id)
		return err
	})
}

// Active notes when something was last done with a workspace, and when it expires. An earlier time than what is noted changes nothing.
func (s *Store) Active(ctx context.Context, id string, last, expires time.Time) error {
	return s.record(ctx, func(tx *sql.Tx) error { return active(ctx, tx, id, last, expires) })
}

func active(ctx context.Context, tx *sql.Tx, id string, last, expires time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE workspaces SET last_activity_at = $1, expires_at = $2 WHERE id = $3 AND last_activity_at <= $1", nanos(last), nanos(expires), id)
	return err
}

// Started notes a start. Services that nobody saw the end of ended with the machine before.
func (s *Store) Started(ctx context.Context, id string, last, expires time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE workspaces SET starts = starts + 1 WHERE id = $1", id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE services SET ended_at = $1, result = json_set(result, '$.broken', $2) WHERE workspace_id = $3 AND ended_at = 0`,
			nanos(last), MachineEnded, id)
		if err != nil {
			return err
		}
		return active(ctx, tx, id, last, expires)
	})
}

// MachineEnded is why nobody saw the end of a service.
const MachineEnded = "its machine ended"

// SetDisks has the next machine work on other disks.
func (s *Store) SetDisks(ctx context.Context, id string, d Disks) error {
	return s.write(ctx, func(tx *sql.Tx) error { return setDisks(ctx, tx, id, d) })
}

func setDisks(ctx context.Context, tx *sql.Tx, id string, d Disks) error {
	r, err := tx.ExecContext(ctx, "UPDATE workspaces SET disks = $1 WHERE id = $2 AND kind <> $3", text(d), id, KindTemplate)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, error(fault.New(fault.NotFound, "find workspace", id, "there is none of this id or name")))
	}
	return nil
}

// Reset has the next machine work on other disks, and forgets the history, the services and the events.
func (s *Store) Reset(ctx context.Context, id string, d Disks, when time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := setDisks(ctx, tx, id, d); err != nil {
			return err
		}
		if err := forgetPast(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE workspaces SET reset_count = reset_count + 1, last_reset_at = $1 WHERE id = $2", nanos(when), id)
		return err
	})
}

// forgetPast removes what was done in a workspace.
func forgetPast(ctx context.Context, tx *sql.Tx, id string) error {
	for _, table := range []string{"commands", "services", "events"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE workspace_id = $1", id); err != nil {
			return err
		}
	}
	return nil
}

// MakeTemplate has a workspace be a template from now on, with these labels, spec and disks, and forgets what was done in it. NotFound where none has the id.
func (s *Store) MakeTemplate(ctx context.Context, id string, labels map[string]string, spec Spec, d Disks) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "UPDATE workspaces SET kind = $1, name = '', labels = $2, spec = $3, disks = $4, expires_at = 0 WHERE id = $5 AND kind = $6",
			KindTemplate, text(labels), text(spec), text(d), id, KindWorkspace)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, error(fault.New(fault.NotFound, "find workspace", id, "there is none of this id or name")))
		}
		return forgetPast(ctx, tx, id)
	})
}

// Delete forgets a workspace with all that belongs to it. It is no error when there is none.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM workspaces WHERE id = $1", id)
		return err
	})
}
