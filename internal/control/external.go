package control

import (
	"context"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// External is a login at an OpenID provider. The provider has signed it.
type External struct {
	store.External
	Email    string
	Verified bool // the provider has checked that the user owns the email
	Name     string
}

// LoginExternal begins a session of the user with an account at a provider.
//
// At the first login, it finds the user by a verified email. It then removes the user's password,
// because the person who sent the invitation may know it. If no user has the email, and its domain
// is in domains, it creates a user in the first team. Otherwise it fails with Permission.
func (c *Control) LoginExternal(ctx context.Context, e External, domains []string, address string) (Session, error) {
	u, err := c.store.UserByExternal(ctx, e.External)
	if fault.KindOf(err) == fault.NotFound {
		u, err = c.firstExternal(ctx, e, domains, address)
	}
	if err != nil {
		return Session{}, err
	}
	if u.Disabled {
		return Session{}, fault.Newf(fault.Permission, "%w", ErrDisabled)
	}
	return c.begin(ctx, u.ID, address)
}

// firstExternal finds or creates the user of an account at a provider, and links the account to the
// user.
func (c *Control) firstExternal(ctx context.Context, e External, domains []string, address string) (store.User, error) {
	refused := fault.Newf(fault.Permission, "nobody has invited this account").WithHint("ask an admin to add your email")
	if !e.Verified {
		return store.User{}, refused
	}
	email, err := checkEmail(e.Email)
	if err != nil {
		return store.User{}, err
	}
	u, err := c.store.UserByEmail(ctx, email)
	if err == nil {
		return u, c.store.Link(ctx, u.ID, e.External, c.clock())
	}
	if fault.KindOf(err) != fault.NotFound {
		return u, err
	}
	if !slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(email[strings.LastIndex(email, "@")+1:], d) }) {
		return u, refused
	}
	t, err := c.store.FirstTeam(ctx)
	if err != nil {
		return u, err
	}
	name := strings.TrimSpace(e.Name)
	if name == "" || len(name) > 100 {
		name, _, _ = strings.Cut(email, "@")
	}
	u = store.User{ID: store.NewID(store.UserPrefix), Email: email, Name: name, CreatedAt: c.clock().UTC()}
	err = c.store.AddExternalUser(ctx, t.ID, u, e.External, store.RoleMember)
	c.audit(ctx, Actor{Type: store.ActorSystem, ID: "oidc", Name: e.Issuer, TeamID: t.ID, Address: address}, actAdd, onMember, u.ID, err)
	return u, err
}
