package control

import (
	"context"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// linkTime is the validity of a login link.
const linkTime = time.Hour

// OwnerLink returns the token of a login link for the owner of the first team. ok is false if the
// owner has a password, or is no longer in a team.
func (c *Control) OwnerLink(ctx context.Context) (token secret.Value, ok bool, err error) {
	u, err := c.store.UserByEmail(ctx, firstOwner)
	switch {
	case fault.KindOf(err) == fault.NotFound, err == nil && u.Password.Reveal() != "":
		return token, false, nil
	case err != nil:
		return token, false, err
	}
	if teams, err := c.store.Memberships(ctx, u.ID); err != nil || len(teams) == 0 {
		return token, false, err
	}
	token, err = c.newLink(ctx, u.ID, linkTime)
	return token, err == nil, err
}

// newLink creates a login link of a user and returns its token. The link works once.
func (c *Control) newLink(ctx context.Context, user string, valid time.Duration) (secret.Value, error) {
	token, now := newToken(), c.clock()
	return token, c.store.AddLoginLink(ctx, digest(token), user, now, now.Add(valid))
}

// LoginByLink begins a session of a login link's user. The link does not work again.
func (c *Control) LoginByLink(ctx context.Context, token secret.Value, address string) (Session, error) {
	user, err := c.store.UseLoginLink(ctx, digest(token), c.clock())
	if fault.KindOf(err) == fault.NotFound {
		err = unauthenticated("the login link was used, or it has expired").WithHint("ask an admin for a new link; pyro serve prints one for the owner when it starts")
	}
	if err != nil {
		return Session{}, err
	}
	return c.begin(ctx, user, address)
}
