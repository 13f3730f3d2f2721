package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Template describes a template of sandboxes.
type Template struct {
	Name      string            `json:"name"`
	Type      string            `json:"type" enum:"base,snapshot" doc:"snapshot: has processes, which continue in each new sandbox; base: has only files"`
	VCPUs     int64             `json:"vcpus" doc:"0: the request for a sandbox decides"`
	MemoryMB  int64             `json:"memory_mb" doc:"0: the request for a sandbox decides"`
	SizeBytes int64             `json:"size_bytes" doc:"The size on the disk of the host; 0: unknown"`
	CreatedAt *time.Time        `json:"created_at,omitempty"`
	Platform  bool              `json:"platform" doc:"The template belongs to the hosts: every team can use it, and no user can delete it"`
	Metadata  map[string]string `json:"metadata"`
}

// Types of templates.
const (
	baseTemplate     = "base"
	snapshotTemplate = "snapshot"
)

func newTemplate(t store.Template) Template {
	kind := snapshotTemplate
	if t.FilesOnly {
		kind = baseTemplate
	}
	return Template{t.Name, kind, t.VCPUs, t.MemoryMB, t.SizeBytes, optional(t.CreatedAt), false, map[string]string{}}
}

func (s *Server) bindSnapshots() {
	const path = "/v1/snapshots"
	huma.Register(s.api, operation(http.MethodPost, path, "snapshots-create", "Turn a sandbox into a template; the sandbox then no longer exists", store.RoleMember, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			Overwrite bool `query:"overwrite" doc:"Replace the team's template with this name"`
			Body      struct {
				SandboxID string `json:"sandbox_id" minLength:"1" maxLength:"64" doc:"It must be running or paused"`
				Name      string `json:"name,omitempty" maxLength:"64" doc:"Letters, digits, '.', '_' and '-'; empty: a random name"`
				FilesOnly bool   `json:"files_only,omitempty" doc:"Leave out the processes: new sandboxes boot"`
			}
		}) (*body[Template], error) {
			t, err := s.control.CreateTemplate(ctx, identity(ctx).Actor, control.NewTemplate{
				SandboxID: in.Body.SandboxID, Name: in.Body.Name, Overwrite: in.Overwrite, FilesOnly: in.Body.FilesOnly,
			})
			if err != nil {
				return nil, newError(err)
			}
			return &body[Template]{newTemplate(t)}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, path, "snapshots-list", "List the templates of the team and of the hosts", store.RoleViewer),
		func(ctx context.Context, in *struct {
			Type string `query:"type" enum:"base,snapshot" doc:"Only templates of this type"`
		}) (*body[[]Template], error) {
			found, err := s.control.Templates(ctx, identity(ctx).Actor)
			if err != nil {
				return nil, newError(err)
			}
			all := append(itemsOf(found, newTemplate), Template{Name: control.MinimalTemplate, Type: baseTemplate, Platform: true, Metadata: map[string]string{}})
			return &body[[]Template]{slices.DeleteFunc(all, func(t Template) bool { return in.Type != "" && in.Type != t.Type })}, nil
		})
	huma.Register(s.api, operation(http.MethodDelete, path+"/{name}", "snapshots-delete", "Delete a template that no sandbox uses", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			Name string `path:"name" maxLength:"256"`
		}) (*struct{}, error) {
			return done(s.control.DeleteTemplate(ctx, identity(ctx).Actor, in.Name))
		})
}
