package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// template describes a template that was made from a sandbox. Its JSON form is stored with the
// workspace; see Machines.MakeTemplate.
type template struct {
	id string // ID of the template's workspace

	TeamID      string            `json:"team_id,omitempty"`     // hexadecimal digits without dashes
	TemplateID  string            `json:"template_id,omitempty"` // likewise; if empty, Name identifies the template
	Name        string            `json:"name,omitempty"`
	SandboxID   string            `json:"sandbox_id"` // ID of the sandbox that became the template
	Flat        bool              `json:"flat,omitempty"`
	Environment string            `json:"environment"`
	Isolation   string            `json:"isolation"`
	VCPUs       int               `json:"vcpus"`
	MemoryMB    int               `json:"memory_mb"`
	DiskSizeMB  int               `json:"disk_size_mb"`
	DefaultUser string            `json:"default_user,omitempty"`
	DefaultEnv  map[string]string `json:"default_env,omitempty"`
	SizeBytes   int64             `json:"size_bytes"`
	CreatedAt   time.Time         `json:"created_at"`
}

// templateKey identifies a template by its team and template ID, or by its name if it has no ID.
type templateKey struct{ team, id, name string }

func (t *template) key() templateKey {
	if t.TemplateID != "" {
		return templateKey{team: t.TeamID, id: t.TemplateID}
	}
	return templateKey{name: t.Name}
}

// shownName returns the template's name to show to people.
func (t *template) shownName() string {
	if t.Name != "" {
		return t.Name
	}
	return t.TemplateID
}

// minimal is the name of the template that always exists.
const minimal = "minimal"

// keyOf returns the key of the template that a request names. The zero key stands for minimal.
func keyOf(teamID, templateID, name string) (templateKey, error) {
	team, err1 := parseUUID("team_id", teamID)
	id, err2 := parseUUID("template_id", templateID)
	switch {
	case errors.Join(err1, err2) != nil:
		return templateKey{}, errors.Join(err1, err2)
	case templateID != "" && (team != noUUID || id != noUUID):
		return templateKey{team: team, id: id}, nil
	case templateID != "" || name == "" || name == minimal:
		return templateKey{}, nil
	}
	return templateKey{name: name}, nil
}

// newKeyOf returns the key of a template to make or delete. It rejects minimal.
func newKeyOf(teamID, templateID, name string) (templateKey, error) {
	key, err := keyOf(teamID, templateID, name)
	switch {
	case err != nil:
		return key, err
	case key == templateKey{}:
		return key, fault.Newf(fault.Invalid, "the template %s can't be replaced or deleted", minimal).WithHint("set team_id and template_id")
	case key.id == "" || name != "":
		err = checkName("name", name)
	}
	return key, err
}

// errNoTemplate returns the error for an unknown template.
func errNoTemplate(key templateKey) error {
	subject := key.id
	if subject == "" {
		subject = fault.Printable(key.name[:min(len(key.name), 80)])
	}
	return fault.New(fault.NotFound, "find template", subject, "no template of this host has these IDs or this name").
		WithHint("omit template_id and set template to an environment, such as %s", DefaultEnvironment)
}

// applyTemplate sets the fields of a record from the template. Values from the request have
// priority, except that the template fixes some of them.
func (r *record) applyTemplate(t *template) {
	r.From, r.Template, r.Environment = t.id, t.shownName(), t.Environment
	if !t.Flat { // the machine is resumed with these sizes
		r.VCPUs, r.MemoryMB = t.VCPUs, t.MemoryMB
	}
	// The template's disk size is the size of its file system. Earlier versions recorded sizes
	// below the minimum.
	r.DiskSizeMB = max(t.DiskSizeMB, minDiskSizeMB)
	for value, byDefault := range map[*int]int{&r.VCPUs: t.VCPUs, &r.MemoryMB: t.MemoryMB} {
		if *value == 0 {
			*value = byDefault
		}
	}
	if r.DefaultUser == "" {
		r.DefaultUser = t.DefaultUser
	}
	env := maps.Clone(t.DefaultEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, r.DefaultEnv)
	r.DefaultEnv = env
}

// loadTemplates loads the templates. It also stops leftover processes of machines that became
// templates.
func (a *Agent) loadTemplates(ctx context.Context) error {
	all, err := a.options.Machines.Templates(ctx)
	if err != nil {
		return err
	}
	for _, stored := range all {
		t := &template{}
		if err := json.Unmarshal([]byte(stored.Record), t); err != nil {
			a.options.Log.Error("skip a template that can't be read", "workspace", stored.ID, "error", err)
			continue
		}
		t.id = stored.ID
		a.templates[t.key()] = t
		a.endSource(ctx, t)
	}
	return nil
}

// endSource stops leftover processes of the machine that became a template. If that fails, the next
// Open tries again.
func (a *Agent) endSource(ctx context.Context, t *template) {
	if err := a.options.Machines.EndSource(ctx, t.id); err != nil {
		a.options.Log.Error("end the machine that became a template", "template", t.shownName(), "error", err)
	}
}

// isTemplate reports whether a workspace is a template.
func (a *Agent) isTemplate(workspaceID string) bool {
	for _, t := range a.templates {
		if t.id == workspaceID {
			return true
		}
	}
	return false
}
