package control

import (
	"context"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// The owners of the first team are the operators of the server: they create teams and set quotas.

// Operator reports whether an actor is an operator.
func (c *Control) Operator(ctx context.Context, by Actor) (bool, error) {
	if by.Type != store.ActorUser {
		return false, nil
	}
	t, err := c.store.FirstTeam(ctx)
	if err != nil {
		return false, err
	}
	m, err := c.store.Member(ctx, t.ID, by.ID)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return err == nil && m.Role == store.RoleOwner, err
}

// needOperator fails with Permission if an actor is not an operator.
func (c *Control) needOperator(ctx context.Context, by Actor) error {
	ok, err := c.Operator(ctx, by)
	if err == nil && !ok {
		err = fault.Newf(fault.Permission, "only an operator of the server can do this").WithHint("ask an owner of the first team")
	}
	return err
}

// Membership is a team of a user.
type Membership struct {
	store.Team
	Role store.Role
}

// TeamsOf returns the teams of a user, the oldest membership first.
func (c *Control) TeamsOf(ctx context.Context, by Actor) ([]Membership, error) {
	mine, err := c.store.Memberships(ctx, by.ID)
	if err != nil {
		return nil, err
	}
	all := make([]Membership, 0, len(mine))
	for _, m := range mine {
		t, err := c.store.Team(ctx, m.TeamID)
		if fault.KindOf(err) == fault.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Membership{t, m.Role})
	}
	return all, nil
}

// CreateTeam creates a team. The actor must be an operator, and becomes the owner of the team.
func (c *Control) CreateTeam(ctx context.Context, by Actor, name string) (Membership, error) {
	t := store.Team{ID: store.NewID(store.TeamPrefix), Name: name, CreatedAt: c.clock().UTC()}
	t.Slug = slug(name, t.ID)
	err := c.needOperator(ctx, by)
	if err == nil {
		err = c.store.AddTeam(ctx, t, by.ID)
	}
	c.audit(ctx, by, actCreate, onTeam, t.ID, err)
	return Membership{t, store.RoleOwner}, err
}

// maxSlug is the maximum length of the part of a slug that comes from the name of a team.
const maxSlug = 40

// slug returns a unique slug from the name and the ID of a team.
func slug(name, id string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case b.Len() == maxSlug:
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	text := strings.TrimSuffix(b.String(), "-")
	if text == "" {
		text = "team"
	}
	return text + "-" + id[len(id)-8:]
}

// Team returns the team for which an actor acts.
func (c *Control) Team(ctx context.Context, by Actor) (store.Team, error) {
	return c.store.Team(ctx, by.TeamID)
}

// RenameTeam renames the team for which an actor acts.
func (c *Control) RenameTeam(ctx context.Context, by Actor, name string) error {
	err := c.store.RenameTeam(ctx, by.TeamID, name)
	c.audit(ctx, by, actUpdate, onTeam, by.TeamID, err)
	return err
}

// DeleteTeam deletes the team for which an actor acts, with its keys and its audit log. The audit
// log of the first team records the deletion. Precondition: it has sandboxes, or it is the first
// team.
func (c *Control) DeleteTeam(ctx context.Context, by Actor) error {
	err := c.store.RemoveTeam(ctx, by.TeamID)
	team := by.TeamID
	if err == nil {
		if by, err = c.inFirstTeam(ctx, by); err != nil {
			return err
		}
	}
	c.audit(ctx, by, actDelete, onTeam, team, err)
	return err
}

// inFirstTeam returns an actor whose actions are recorded in the audit log of the first team.
func (c *Control) inFirstTeam(ctx context.Context, by Actor) (Actor, error) {
	t, err := c.store.FirstTeam(ctx)
	by.TeamID = t.ID
	return by, err
}

// TeamUse is a team with its use of the quota.
type TeamUse struct {
	store.Team
	Used store.Used
}

// Quota returns the quota and the use of the team for which an actor acts.
func (c *Control) Quota(ctx context.Context, by Actor) (TeamUse, error) {
	t, err := c.store.Team(ctx, by.TeamID)
	if err != nil {
		return TeamUse{}, err
	}
	return c.use(ctx, t)
}

func (c *Control) use(ctx context.Context, t store.Team) (TeamUse, error) {
	u, err := c.store.Used(ctx, t.ID, c.clock())
	return TeamUse{t, u}, err
}

// SetQuota sets the quota of any team. Permission: the actor is not an operator.
func (c *Control) SetQuota(ctx context.Context, by Actor, team string, q store.Quota) (TeamUse, error) {
	err := c.needOperator(ctx, by)
	if err == nil {
		err = c.store.SetQuota(ctx, team, q)
	}
	c.audit(ctx, by, actQuota, onTeam, team, err)
	if err != nil {
		return TeamUse{}, err
	}
	by.TeamID = team
	return c.Quota(ctx, by)
}

// AllTeams returns all teams with their use, the oldest first. Permission: the actor is not an
// operator.
func (c *Control) AllTeams(ctx context.Context, by Actor) ([]TeamUse, error) {
	if err := c.needOperator(ctx, by); err != nil {
		return nil, err
	}
	teams, err := c.store.Teams(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]TeamUse, 0, len(teams))
	for _, t := range teams {
		u, err := c.use(ctx, t)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}
