package serve

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Egress contains the egress rules of a sandbox. It is fixed when the sandbox is created.
type Egress struct {
	SandboxID string   `json:"sandbox_id"`
	Policy    string   `json:"network_policy" enum:"off,egress,published"`
	Allow     []string `json:"egress_allow" doc:"Empty: everything that the policy allows"`
	Deny      []string `json:"egress_deny"`
}

// networkQuery selects records of a network log.
type networkQuery struct {
	ByID
	TailLines int  `query:"tail_lines" minimum:"1" maximum:"1048576" doc:"The latest records; default 200"`
	All       bool `query:"all" doc:"All stored records"`
}

// bindActivity binds the operations that return the activity of a sandbox.
func (s *Server) bindActivity(base string) {
	one := "/v1/" + base + "/{id}"
	register(s, operation(http.MethodGet, one+"/summary", base+"-summary", "Summarize the activity since the creation or the last reset", store.RoleViewer),
		"summarize_workspace", byID[pyro.WorkspaceActivity])
	register(s, operation(http.MethodGet, one+"/history", base+"-history", "List the programs that ran in the foreground, with their output", store.RoleViewer),
		"logs_workspace", byID[pyro.WorkspaceLogs])
	register(s, operation(http.MethodGet, one+"/network-log", base+"-network-log", "List the connections, and the refused attempts", store.RoleViewer),
		"network_log_workspace", func(in *networkQuery) (string, pyro.NetworkLogRequest, pyro.NetworkLog) {
			return in.ID, pyro.NetworkLogRequest{TailLines: in.TailLines, All: in.All}, pyro.NetworkLog{}
		})
	huma.Register(s.api, operation(http.MethodGet, one+"/egress", base+"-egress", "Return the rules of the network", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[Egress], error) {
			w, err := callOperation[struct{}, pyro.Workspace](ctx, s, in.ID, "status_workspace", false, struct{}{})
			if err != nil {
				return nil, err
			}
			e := Egress{SandboxID: in.ID, Policy: string(w.NetworkPolicy), Allow: []string{}, Deny: []string{}}
			if w.Network != nil {
				e.Allow, e.Deny = append(e.Allow, w.Network.EgressAllow...), append(e.Deny, w.Network.EgressDeny...)
			}
			return &body[Egress]{e}, nil
		})
}
