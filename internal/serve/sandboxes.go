package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// Sandbox describes a sandbox.
type Sandbox struct {
	ID           string            `json:"id"`
	Status       string            `json:"status" enum:"pending,running,paused,stopped,missing,error"`
	Template     string            `json:"template"`
	VCPUs        int64             `json:"vcpus"`
	MemoryMB     int64             `json:"memory_mb"`
	DiskMB       int64             `json:"disk_mb"`
	TimeoutSec   int64             `json:"timeout_sec" doc:"Seconds without use until the sandbox is paused; 0: it is never paused"`
	GuestIP      string            `json:"guest_ip" doc:"Always empty, because only the host can reach a sandbox"`
	HostIP       string            `json:"host_ip" doc:"Always empty: see guest_ip"`
	CreatedAt    time.Time         `json:"created_at"`
	StartedAt    *time.Time        `json:"started_at,omitempty"`
	LastActiveAt *time.Time        `json:"last_active_at,omitempty"`
	LastUpdated  time.Time         `json:"last_updated"`
	Metadata     map[string]string `json:"metadata"`
	ParentID     string            `json:"parent_id,omitempty" doc:"The source of the fork, if the sandbox is one"`
}

func newSandbox(b store.Sandbox) Sandbox {
	s := Sandbox{
		ID: b.ID, Status: b.Status, Template: b.Template, VCPUs: b.VCPUs, MemoryMB: b.MemoryMB, DiskMB: b.DiskMB, TimeoutSec: b.TimeoutSec,
		CreatedAt: b.CreatedAt, StartedAt: optional(b.StartedAt), LastActiveAt: optional(b.ActiveAt), LastUpdated: b.UpdatedAt, Metadata: b.Metadata,
		ParentID: b.ParentID,
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	return s
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// NewSandbox describes a sandbox to create.
type NewSandbox struct {
	Template   string            `json:"template,omitempty" default:"minimal" maxLength:"256" doc:"A template, or an environment such as debian:12"`
	VCPUs      int64             `json:"vcpus,omitempty" default:"1" minimum:"1" maximum:"64"`
	MemoryMB   int64             `json:"memory_mb,omitempty" default:"512" minimum:"128" maximum:"1048576"`
	DiskMB     int64             `json:"disk_mb,omitempty" default:"5120" minimum:"64" maximum:"16384"`
	TimeoutSec int64             `json:"timeout_sec,omitempty" default:"0" minimum:"0" maximum:"2147483647" doc:"Seconds without use until the sandbox is paused; 0: it is never paused"`
	Envs       map[string]string `json:"envs,omitempty" doc:"Environment variables of all its programs"`
	Metadata   map[string]string `json:"metadata,omitempty" doc:"Your own labels; pyro does not use them"`
}

// ByID contains the path parameter of requests about a sandbox.
type ByID struct {
	ID string `path:"id" maxLength:"64"`
}

func (s *Server) bindSandboxes(base string) {
	path := "/v1/" + base
	one := path + "/{id}"
	huma.Register(s.api, operation(http.MethodPost, path, base+"-create", "Create a sandbox, and return when it runs", store.RoleMember, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			Key  string `header:"Idempotency-Key" maxLength:"255" doc:"If a request is repeated with the same key, it returns the same sandbox"`
			Body NewSandbox
		}) (*body[Sandbox], error) {
			request, err := hashOf(in.Body)
			if err != nil {
				return nil, err
			}
			return answer(s.control.CreateSandbox(ctx, identity(ctx).Actor, control.Create{
				Template: in.Body.Template, VCPUs: in.Body.VCPUs, MemoryMB: in.Body.MemoryMB, DiskMB: in.Body.DiskMB, TimeoutSec: in.Body.TimeoutSec,
				Env: in.Body.Envs, Metadata: in.Body.Metadata, Key: in.Key, Request: request,
			}))
		})
	huma.Register(s.api, operation(http.MethodGet, path, base+"-list", "List the sandboxes, the latest first", store.RoleViewer),
		func(ctx context.Context, _ *struct{}) (*body[[]Sandbox], error) {
			found, err := s.control.Sandboxes(ctx, identity(ctx).Actor)
			return listed(found, err, newSandbox)
		})
	huma.Register(s.api, operation(http.MethodGet, one, base+"-get", "Describe a sandbox", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[Sandbox], error) {
			return answer(s.control.Sandbox(ctx, identity(ctx).Actor, in.ID))
		})
	huma.Register(s.api, operation(http.MethodDelete, one, base+"-delete", "Delete a sandbox with all its files", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByID) (*struct{}, error) {
			return done(s.control.DeleteSandbox(ctx, identity(ctx).Actor, in.ID))
		})
	huma.Register(s.api, operation(http.MethodPost, one+"/pause", base+"-pause", "Save the machine of a sandbox to disk and stop it", store.RoleMember),
		func(ctx context.Context, in *ByID) (*body[Sandbox], error) {
			return answer(s.control.PauseSandbox(ctx, identity(ctx).Actor, in.ID))
		})
	huma.Register(s.api, operation(http.MethodPost, one+"/resume", base+"-resume", "Resume a paused sandbox", store.RoleMember),
		func(ctx context.Context, in *ByID) (*body[Sandbox], error) {
			return answer(s.control.ResumeSandbox(ctx, identity(ctx).Actor, in.ID))
		})
	huma.Register(s.api, operation(http.MethodPost, one+"/ping", base+"-ping", "Record a use of a sandbox, which delays its pause", store.RoleMember, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByID) (*struct{}, error) {
			_, err := call(ctx, s, in.ID, hostClient.PingSandbox, &pb.PingSandboxRequest{SandboxId: in.ID})
			return nil, err
		})
	huma.Register(s.api, operation(http.MethodGet, one+"/metrics", base+"-metrics", "Return the use of processors, memory and disk", store.RoleViewer),
		func(ctx context.Context, in *struct {
			ByID
			Range string `query:"range" default:"10m" enum:"5m,10m,1h,2h,6h,12h,24h"`
		}) (*body[Metrics], error) {
			return s.metrics(ctx, in.ID, in.Range)
		})
}

// hashOf returns the hash of a request. The control plane compares it with the hash of an earlier
// request that had the same idempotency key.
func hashOf(request any) (string, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return "", newError(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func answer(b store.Sandbox, err error) (*body[Sandbox], error) {
	if err != nil {
		return nil, newError(err)
	}
	return &body[Sandbox]{newSandbox(b)}, nil
}

func done(err error) (*struct{}, error) {
	if err != nil {
		return nil, newError(err)
	}
	return nil, nil
}
