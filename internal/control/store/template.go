package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Template is the record of a template, which a team has made from a sandbox.
type Template struct {
	ID        string
	TeamID    string
	HostID    string
	Name      string // unique within a team
	SandboxID string // the sandbox that became the template

	Deleted   bool // its host must remove it
	Made      bool // its host has made it
	FilesOnly bool // it has no processes: sandboxes from it boot

	VCPUs, MemoryMB, DiskMB int64
	SizeBytes               int64
	CreatedBy               string // the id of a user or of a key
	CreatedAt               time.Time
}

// The values of the column wanted.
const (
	templatePresent = "present"
	templateDeleted = "deleted"
)

const templateFields = `id, team_id, host_id, name, sandbox_id, wanted, made, files_only, vcpus, memory_mb, disk_mb, size_bytes, created_by, created_at`

func scanTemplate(r row) (t Template, err error) {
	var wanted string
	var made, files, created int64
	err = r.Scan(&t.ID, &t.TeamID, &t.HostID, &t.Name, &t.SandboxID, &wanted, &made, &files, &t.VCPUs, &t.MemoryMB, &t.DiskMB, &t.SizeBytes, &t.CreatedBy, &created)
	t.Deleted, t.Made, t.FilesOnly, t.CreatedAt = wanted == templateDeleted, made != 0, files != 0, moment(created)
	return t, err
}

// ErrNameTaken is wrapped by the error of AddTemplate if another template of the team has the name.
var ErrNameTaken = errors.New("the team already has a template with this name")

// AddTemplate adds the record of a template before its host makes it. Exists: the team has a
// template with this name and overwrite is false. It also fails with Exists if another request is
// making a template with this name or from this sandbox.
func (s *Store) AddTemplate(ctx context.Context, t Template, overwrite bool) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, t.TeamID); err != nil {
			return err
		}
		others, err := collect(ctx, tx, scanTemplate, "SELECT "+templateFields+` FROM templates WHERE team_id = $1 AND wanted = $2
			AND (name = $3 OR sandbox_id = $4 AND made = 0)`, t.TeamID, templatePresent, t.Name, t.SandboxID)
		if err != nil {
			return err
		}
		for _, other := range others {
			switch {
			case other.Name != t.Name:
				return fault.New(fault.Exists, "create template of sandbox", t.SandboxID, "another request is turning it into the template %s", other.Name)
			case !overwrite || !other.Made:
				return fault.New(fault.Exists, "create template", t.Name, "%w", ErrNameTaken).WithHint("use another name, or overwrite=true")
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO templates ("+templateFields+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
			t.ID, t.TeamID, t.HostID, t.Name, t.SandboxID, templatePresent, number(t.Made), number(t.FilesOnly), t.VCPUs, t.MemoryMB, t.DiskMB, t.SizeBytes, t.CreatedBy, micros(t.CreatedAt))
		return err
	})
}

// TemplateMade records that the host has made a template. It removes the record of the sandbox that
// became the template, and marks an earlier template with the same name as deleted. It is
// idempotent.
func (s *Store) TemplateMade(ctx context.Context, t Template, sizeBytes int64, now time.Time) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, t.TeamID); err != nil {
			return err
		}
		was, err := find(ctx, tx, "template", t.ID, scanTemplate, "SELECT "+templateFields+" FROM templates WHERE id = $1", t.ID)
		if fault.KindOf(err) == fault.NotFound {
			was.Made = true
		} else if err != nil {
			return err
		}
		replaced, err := collect(ctx, tx, scanTemplate, `UPDATE templates SET wanted = $1 WHERE team_id = $2 AND name = $3 AND made = 1 AND wanted <> $1 AND id <> $4
			RETURNING `+templateFields, templateDeleted, t.TeamID, t.Name, t.ID)
		if err != nil {
			return err
		}
		for _, old := range replaced {
			if err := s.templateEvent(ctx, tx, EventTemplateRemoved, old); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "UPDATE templates SET made = 1, size_bytes = $1 WHERE id = $2", sizeBytes, t.ID); err != nil {
			return err
		}
		if !was.Made {
			if err := s.templateEvent(ctx, tx, EventTemplateCreated, t); err != nil {
				return err
			}
		}
		b, err := record(ctx, tx, t.SandboxID)
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return s.forget(ctx, tx, b, now)
	})
}

// DeleteTemplate marks a template of a team as deleted. Its name can be used again. NotFound: the
// team has no template with this name. Precondition: a sandbox uses it.
func (s *Store) DeleteTemplate(ctx context.Context, team, name string) (t Template, err error) {
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		if err := lockTeam(ctx, tx, team); err != nil {
			return err
		}
		if t, err = template(ctx, tx, team, name); err != nil {
			return err
		}
		var used int64
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sandboxes WHERE template_id = $1", t.ID).Scan(&used); err != nil {
			return err
		}
		if used > 0 {
			return fault.New(fault.Precondition, "delete template", name, "%d sandboxes use it", used).WithHint("delete the sandboxes that were created from it")
		}
		if _, err := tx.ExecContext(ctx, "UPDATE templates SET wanted = $1 WHERE id = $2", templateDeleted, t.ID); err != nil {
			return err
		}
		return s.templateEvent(ctx, tx, EventTemplateRemoved, t)
	})
	return t, err
}

// RestoreTemplate undoes DeleteTemplate. Exists: another template has taken the name.
func (s *Store) RestoreTemplate(ctx context.Context, t Template) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if err := lockTeam(ctx, tx, t.TeamID); err != nil {
			return err
		}
		if err := changeOne(ctx, tx, "template", t.ID, "UPDATE templates SET wanted = $1 WHERE id = $2", templatePresent, t.ID); err != nil {
			return err
		}
		return s.templateEvent(ctx, tx, EventTemplateCreated, t)
	})
}

func (s *Store) templateEvent(ctx context.Context, tx *sql.Tx, kind string, t Template) error {
	return s.addEvent(ctx, tx, t.TeamID, kind, t.ID, map[string]string{"name": t.Name})
}

// ForgetTemplate removes the record of a template that its host no longer has. It is idempotent.
func (s *Store) ForgetTemplate(ctx context.Context, id string) error {
	return s.exec(ctx, "DELETE FROM templates WHERE id = $1", id)
}

// Template returns a template of a team by its name. NotFound: the team has no complete template
// with this name.
func (s *Store) Template(ctx context.Context, team, name string) (Template, error) {
	t, err := template(ctx, s.read, team, name)
	return t, s.fault(err)
}

func template(ctx context.Context, from querier, team, name string) (Template, error) {
	return find(ctx, from, "template", name, scanTemplate, "SELECT "+templateFields+" FROM templates WHERE team_id = $1 AND name = $2 AND made = 1 AND wanted = $3", team, name, templatePresent)
}

// TemplateRecord returns the record of a template of any team.
func (s *Store) TemplateRecord(ctx context.Context, id string) (Template, error) {
	t, err := find(ctx, s.read, "template", id, scanTemplate, "SELECT "+templateFields+" FROM templates WHERE id = $1", id)
	return t, s.fault(err)
}

// Templates returns the templates of a team, the latest first.
func (s *Store) Templates(ctx context.Context, team string) ([]Template, error) {
	all, err := collect(ctx, s.read, scanTemplate, "SELECT "+templateFields+" FROM templates WHERE team_id = $1 AND made = 1 AND wanted = $2 ORDER BY created_at DESC, id", team, templatePresent)
	return all, s.fault(err)
}

// UnfinishedTemplates returns the templates that a host has not made yet. It also returns deleted
// templates that no sandbox uses.
func (s *Store) UnfinishedTemplates(ctx context.Context, host string) ([]Template, error) {
	all, err := collect(ctx, s.read, scanTemplate, "SELECT "+templateFields+` FROM templates WHERE host_id = $1 AND
		(made = 0 OR wanted = $2 AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE sandboxes.template_id = templates.id)) ORDER BY created_at, id`, host, templateDeleted)
	return all, s.fault(err)
}

// checkTemplate fails with NotFound if the template of a new sandbox was deleted. Forks do not need
// this check, because the source of a fork still uses the template.
func checkTemplate(ctx context.Context, tx *sql.Tx, b Sandbox) error {
	if b.TemplateID == "" || b.ParentID != "" {
		return nil
	}
	t, err := template(ctx, tx, b.TeamID, b.Template)
	if err == nil && t.ID != b.TemplateID {
		err = notFound("template", b.Template)
	}
	return err
}
