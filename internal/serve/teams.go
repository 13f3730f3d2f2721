package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Team describes a team.
type Team struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Slug      string    `json:"slug"`
	IsBYOC    bool      `json:"is_byoc" doc:"Always false: teams have no hosts of their own"`
	CreatedAt time.Time `json:"created_at"`
}

func newTeam(t store.Team) Team {
	return Team{ID: t.ID, Name: t.Name, Slug: t.Slug, CreatedAt: t.CreatedAt}
}

// MyTeam is a team of the user.
type MyTeam struct {
	Team
	Role string `json:"role" enum:"owner,admin,member,viewer" doc:"The role of the user"`
}

func newMyTeam(m control.Membership) MyTeam {
	return MyTeam{newTeam(m.Team), string(m.Role)}
}

// TeamAndMembers is a team with its members.
type TeamAndMembers struct {
	Team    Team     `json:"team"`
	Members []Member `json:"members"`
}

// Limits are the quota of a team. 0 is no limit.
type Limits struct {
	Sandboxes int64 `json:"sandboxes" minimum:"0" maximum:"1000000"`
	VCPUs     int64 `json:"vcpus" minimum:"0" maximum:"1000000" doc:"The total of all sandboxes that are not paused"`
	MemoryMB  int64 `json:"memory_mb" minimum:"0" maximum:"1000000000" doc:"The total of all sandboxes that are not paused"`
	DiskMB    int64 `json:"disk_mb" minimum:"0" maximum:"1000000000"`
	EgressMB  int64 `json:"egress_mb" minimum:"0" maximum:"1000000000" doc:"Sent to other computers in a calendar month (UTC)"`
}

// Quota is the quota of a team with the current use.
type Quota struct {
	Limits Limits `json:"limits" doc:"0 means no limit"`
	Used   Limits `json:"used"`
}

func newQuota(u control.TeamUse) Quota {
	return Quota{Limits(u.Quota), Limits(u.Used)}
}

// TeamQuota is a team with its quota.
type TeamQuota struct {
	Team
	Quota
}

// own returns an error if the session or key of the request belongs to another team than the team
// in the path.
func own(ctx context.Context, team string) error {
	if identity(ctx).TeamID == team {
		return nil
	}
	return newError(fault.Newf(fault.Permission, "your session is for another team").WithHint("POST /v1/auth/switch-team switches to a team of yours"))
}

func (s *Server) bindTeams() {
	const path, one = "/v1/teams", "/v1/teams/{id}"
	huma.Register(s.api, operation(http.MethodGet, path, "teams-list", "List the teams of the user", store.RoleViewer, byUser),
		func(ctx context.Context, _ *struct{}) (*body[[]MyTeam], error) {
			found, err := s.control.TeamsOf(ctx, identity(ctx).Actor)
			return listed(found, err, newMyTeam)
		})
	huma.Register(s.api, operation(http.MethodPost, path, "teams-create", "Create a team, as an operator of the server", store.RoleViewer, byUser, status(http.StatusCreated)),
		func(ctx context.Context, in *struct{ Body Name }) (*body[MyTeam], error) {
			name, err := in.Body.trimmed()
			if err != nil {
				return nil, err
			}
			t, err := s.control.CreateTeam(ctx, identity(ctx).Actor, name)
			if err != nil {
				return nil, newError(err)
			}
			return &body[MyTeam]{newMyTeam(t)}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, one, "teams-get", "Describe the team and its members", store.RoleViewer, byUser),
		func(ctx context.Context, in *ByID) (*body[TeamAndMembers], error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			t, err := s.control.Team(ctx, identity(ctx).Actor)
			if err != nil {
				return nil, newError(err)
			}
			members, err := s.control.Members(ctx, identity(ctx).Actor)
			if err != nil {
				return nil, newError(err)
			}
			return &body[TeamAndMembers]{TeamAndMembers{newTeam(t), itemsOf(members, newMember)}}, nil
		})
	huma.Register(s.api, operation(http.MethodPatch, one, "teams-update", "Rename the team", store.RoleAdmin, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			ByID
			Body Name
		}) (*struct{}, error) {
			name, err := in.Body.trimmed()
			if err == nil {
				err = own(ctx, in.ID)
			}
			if err != nil {
				return nil, err
			}
			return done(s.control.RenameTeam(ctx, identity(ctx).Actor, name))
		})
	huma.Register(s.api, operation(http.MethodDelete, one, "teams-delete", "Delete the team, which must have no sandboxes and snapshots", store.RoleOwner, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByID) (*struct{}, error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			return done(s.control.DeleteTeam(ctx, identity(ctx).Actor))
		})
	s.bindQuotas(one + "/quotas")
}

func (s *Server) bindQuotas(path string) {
	huma.Register(s.api, operation(http.MethodGet, path, "quotas-get", "Return the quota of the team and what it uses", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[Quota], error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			q, err := s.control.Quota(ctx, identity(ctx).Actor)
			if err != nil {
				return nil, newError(err)
			}
			return &body[Quota]{newQuota(q)}, nil
		})
	huma.Register(s.api, operation(http.MethodPut, path, "quotas-set", "Set the quota of any team, as an operator of the server", store.RoleViewer, byUser),
		func(ctx context.Context, in *struct {
			ByID
			Body Limits
		}) (*body[Quota], error) {
			q, err := s.control.SetQuota(ctx, identity(ctx).Actor, in.ID, store.Quota(in.Body))
			if err != nil {
				return nil, newError(err)
			}
			return &body[Quota]{newQuota(q)}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/admin/teams", "admin-teams", "List all teams with their quotas, as an operator of the server", store.RoleViewer, byUser),
		func(ctx context.Context, _ *struct{}) (*body[[]TeamQuota], error) {
			found, err := s.control.AllTeams(ctx, identity(ctx).Actor)
			return listed(found, err, func(u control.TeamUse) TeamQuota { return TeamQuota{newTeam(u.Team), newQuota(u)} })
		})
}
