package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// template is what sandboxes are made from that was one itself. What it holds and what is said of it here become true in one moment, and are kept in one place: see
// Machines.Keep.
type template struct {
	id string // of what it is made of

	TeamID      string            `json:"team_id,omitempty"`     // digits
	TemplateID  string            `json:"template_id,omitempty"` // digits; empty: it is known by its name
	Name        string            `json:"name,omitempty"`
	SandboxID   string            `json:"sandbox_id"` // that it was
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

// templateKey is what templates are told apart by: the two ids, or a name where there are none.
type templateKey struct{ team, id, name string }

func (t *template) key() templateKey {
	if t.TemplateID != "" {
		return templateKey{team: t.TeamID, id: t.TemplateID}
	}
	return templateKey{name: t.Name}
}

// shownName is how people know it.
func (t *template) shownName() string {
	if t.Name != "" {
		return t.Name
	}
	return t.TemplateID
}

// minimal is the name of the template that is always there.
const minimal = "minimal"

// keyOf reads what a client names a template by. The zero key is minimal.
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

// newKeyOf reads what a template is to be known by.
func newKeyOf(teamID, templateID, name string) (templateKey, error) {
	key, err := keyOf(teamID, templateID, name)
	switch {
	case err != nil:
		return key, err
	case key == templateKey{}:
		return key, fault.Newf(fault.Invalid, "the template %s is there for ever", minimal).WithHint("set team_id and template_id")
	case key.id == "" || name != "":
		err = checkName("name", name)
	}
	return key, err
}

// errNoTemplate says that there is none.
func errNoTemplate(key templateKey) error {
	subject := key.id
	if subject == "" {
		subject = fault.Printable(key.name[:min(len(key.name), 80)])
	}
	return fault.New(fault.NotFound, "find template", subject, "there is none of these ids, or of this name, on this host").
		WithHint("leave template_id out and name an environment in template, such as %s", DefaultEnvironment)
}

// from says what a sandbox is made from: with what it has not said itself as the template has it.
func (r *record) from(t *template) {
	r.From, r.Template, r.Environment = t.id, t.shownName(), t.Environment
	if !t.Flat { // the machine that it was has its processors and memory
		r.VCPUs, r.MemoryMB = t.VCPUs, t.MemoryMB
	}
	r.DiskSizeMB = max(t.DiskSizeMB, minDiskSizeMB) // its file system has that size; earlier versions took less
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

// loadTemplates finds the templates, and ends what is left of the sandboxes that they were.
func (a *Agent) loadTemplates(ctx context.Context) error {
	kept, err := a.options.Machines.Kept(ctx)
	if err != nil {
		return err
	}
	for _, k := range kept {
		t := &template{}
		if err := json.Unmarshal([]byte(k.About), t); err != nil {
			a.options.Log.Error("a template can't be read, and is left alone", "workspace", k.ID, "error", err)
			continue
		}
		t.id = k.ID
		a.templates[t.key()] = t
		a.settle(ctx, t)
	}
	return nil
}

// settle ends what is left of the machine that a template was, which can be done later, too.
func (a *Agent) settle(ctx context.Context, t *template) {
	if err := a.options.Machines.Settle(ctx, t.id); err != nil {
		a.options.Log.Error("end what a template was", "template", t.shownName(), "error", err)
	}
}

// became tells whether a workspace is a template by now.
func (a *Agent) became(workspaceID string) bool {
	for _, t := range a.templates {
		if t.id == workspaceID {
			return true
		}
	}
	return false
}
