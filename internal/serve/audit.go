package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	ID           string            `json:"id"`
	ActorType    string            `json:"actor_type" enum:"user,api_key,system"`
	ActorID      string            `json:"actor_id,omitempty"`
	ActorName    string            `json:"actor_name,omitempty"`
	ResourceType string            `json:"resource_type"`
	ResourceID   string            `json:"resource_id,omitempty"`
	Action       string            `json:"action"`
	Scope        string            `json:"scope" enum:"team,admin" doc:"Only admins see entries with the scope admin"`
	Status       string            `json:"status" enum:"success,error"`
	Metadata     map[string]string `json:"metadata,omitempty" doc:"The address of the client, the kind of the error, and the name of the resource"`
	CreatedAt    time.Time         `json:"created_at"`
}

// AuditPage is a part of the audit log, the latest entry first.
type AuditPage struct {
	Items        []AuditEntry `json:"items"`
	NextBefore   *time.Time   `json:"next_before,omitempty" doc:"The parameter before for the next page"`
	NextBeforeID string       `json:"next_before_id,omitempty" doc:"The parameter before_id for the next page"`
}

func newAuditEntry(a store.Audit) AuditEntry {
	e := AuditEntry{
		ID: a.ID, ActorType: a.ActorType, ActorID: a.ActorID, ActorName: a.ActorName, ResourceType: a.Resource, ResourceID: a.Subject, Action: a.Action,
		Scope: "team", Status: "success", Metadata: map[string]string{}, CreatedAt: a.At,
	}
	if control.AdminScope(a.Resource) {
		e.Scope = "admin"
	}
	if a.Address != "" {
		e.Metadata["address"] = a.Address
	}
	if a.Name != "" {
		e.Metadata["name"] = a.Name
	}
	if a.Result != store.AuditOK {
		e.Status, e.Metadata["error"] = "error", a.Result
	}
	return e
}

func (s *Server) bindAudit() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/audit-logs", "audit-logs", "Return entries of the audit log, the latest first", store.RoleViewer, byUser),
		func(ctx context.Context, in *struct {
			Before    time.Time `query:"before" doc:"Only entries before this time"`
			BeforeID  string    `query:"before_id" maxLength:"64" doc:"Also entries at this time with a smaller ID"`
			Limit     int       `query:"limit" default:"50" minimum:"1" maximum:"200"`
			Resources []string  `query:"resource_type,explode" maxItems:"20"`
			Actions   []string  `query:"action,explode" maxItems:"20"`
		}) (*body[AuditPage], error) {
			found, err := s.control.Audits(ctx, identity(ctx), store.AuditQuery{
				Before: in.Before, BeforeID: in.BeforeID, Resources: in.Resources, Actions: in.Actions, Limit: in.Limit,
			})
			if err != nil {
				return nil, newError(err)
			}
			page := AuditPage{Items: itemsOf(found, newAuditEntry)}
			if len(found) == in.Limit {
				last := found[len(found)-1]
				page.NextBefore, page.NextBeforeID = &last.At, last.ID
			}
			return &body[AuditPage]{page}, nil
		})
}
