package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// Member is a member of a team.
type Member struct {
	UserID   string    `json:"user_id"`
	Name     string    `json:"name"`
	Email    string    `json:"email"`
	Role     string    `json:"role" enum:"owner,admin,member,viewer"`
	JoinedAt time.Time `json:"joined_at"`
}

func newMember(m store.Member) Member {
	return Member{m.UserID, m.Name, m.Email, string(m.Role), m.JoinedAt}
}

// LoginLink is a link that logs a user in once. It is a secret.
type LoginLink struct {
	URL       string    `json:"login_link"`
	ExpiresAt time.Time `json:"login_link_expires_at"`
}

// newLoginLink returns a link to this server. It contains the address that the client uses for the
// server.
func newLoginLink(r *http.Request, l control.LoginLink) LoginLink {
	return LoginLink{origin(r) + "/login/" + l.Token.Reveal(), l.Expires}
}

// AddedMember is a new member. If the user has only been invited, it has a link for their login.
type AddedMember struct {
	Member
	Link      string     `json:"login_link,omitempty" doc:"A link that works once, for a user with neither a password nor an account at a provider. Earlier links of the user do not work any more"`
	ExpiresAt *time.Time `json:"login_link_expires_at,omitempty"`
}

// ByMember contains the path parameters of requests about a member.
type ByMember struct {
	ByID
	UID string `path:"uid" maxLength:"64"`
}

func (s *Server) bindMembers() {
	const path = "/v1/teams/{id}/members"
	huma.Register(s.api, operation(http.MethodGet, path, "members-list", "List the members of the team", store.RoleViewer, byUser),
		func(ctx context.Context, in *ByID) (*body[[]Member], error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			found, err := s.control.Members(ctx, identity(ctx).Actor)
			return listed(found, err, newMember)
		})
	huma.Register(s.api, operation(http.MethodPost, path, "members-add", "Add a user to the team, or invite a new one", store.RoleAdmin, byUser, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			withRequest
			ByID
			Body struct {
				Email string `json:"email" minLength:"3" maxLength:"320"`
				Role  string `json:"role,omitempty" default:"member" enum:"owner,admin,member,viewer"`
			}
		}) (*body[AddedMember], error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			m, link, err := s.control.AddMember(ctx, identity(ctx), in.Body.Email, store.Role(in.Body.Role))
			if err != nil {
				return nil, newError(err)
			}
			added := AddedMember{Member: newMember(m)}
			if link.Token.Reveal() != "" {
				l := newLoginLink(in.http, link)
				added.Link, added.ExpiresAt = l.URL, &l.ExpiresAt
			}
			return &body[AddedMember]{added}, nil
		})
	huma.Register(s.api, operation(http.MethodPatch, path+"/{uid}", "members-update", "Change the role of a member", store.RoleAdmin, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			ByMember
			Body struct {
				Role string `json:"role" enum:"owner,admin,member,viewer"`
			}
		}) (*struct{}, error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			return done(s.control.SetRole(ctx, identity(ctx), in.UID, store.Role(in.Body.Role)))
		})
	huma.Register(s.api, operation(http.MethodDelete, path+"/{uid}", "members-remove", "Remove a member, whose sessions and API keys end immediately", store.RoleAdmin, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *ByMember) (*struct{}, error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			return done(s.control.RemoveMember(ctx, identity(ctx), in.UID))
		})
	huma.Register(s.api, operation(http.MethodPost, path+"/{uid}/login-link", "members-login-link", "Make a login link for a member who has not logged in yet", store.RoleAdmin, byUser, status(http.StatusCreated)),
		func(ctx context.Context, in *struct {
			withRequest
			ByMember
		}) (*body[LoginLink], error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			link, err := s.control.NewLoginLink(ctx, identity(ctx), in.UID)
			if err != nil {
				return nil, newError(err)
			}
			return &body[LoginLink]{newLoginLink(in.http, link)}, nil
		})
	huma.Register(s.api, operation(http.MethodPost, "/v1/teams/{id}/leave", "teams-leave", "Leave the team, which ends the session", store.RoleViewer, byUser, status(http.StatusNoContent)),
		func(ctx context.Context, in *struct {
			withRequest
			ByID
		}) (*withoutBody, error) {
			if err := own(ctx, in.ID); err != nil {
				return nil, err
			}
			return withoutSession(in.http, s.control.LeaveTeam(ctx, identity(ctx)))
		})
}
