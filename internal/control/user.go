package control

import (
	"context"
	"strings"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// RenameUser changes the name of the actor.
func (c *Control) RenameUser(ctx context.Context, by Actor, name string) error {
	err := c.store.RenameUser(ctx, by.ID, name)
	c.audit(ctx, by, actUpdate, onUser, by.ID, err)
	return err
}

// ChangePassword changes the password of the actor, and ends their sessions. A user without a
// password does not need to send the current password. ErrWrongPassword: the current password is
// wrong.
func (c *Control) ChangePassword(ctx context.Context, by Actor, present, next secret.Value) (err error) {
	defer func() { c.audit(ctx, by, actPassword, onUser, by.ID, err) }()
	u, err := c.User(ctx, by)
	if err != nil {
		return err
	}
	if u.Password.Reveal() != "" && !c.checkPassword(present, u.Password) {
		return fault.Newf(fault.Permission, "%w", ErrWrongPassword)
	}
	hash, err := c.hashPassword(next)
	if err != nil {
		return err
	}
	return c.store.SetPassword(ctx, u.ID, hash)
}

// DeleteUser deletes the actor, and teams without other members. confirmation must be the email of
// the actor. ErrOwnsTeam: the actor is the only owner of a team with other members. Precondition: a
// team to delete has sandboxes or is the first team.
func (c *Control) DeleteUser(ctx context.Context, by Actor, confirmation string) (err error) {
	audited := by
	defer func() { c.audit(ctx, audited, actDelete, onUser, by.ID, err) }()
	u, err := c.User(ctx, by)
	if err != nil {
		return err
	}
	if !strings.EqualFold(strings.TrimSpace(confirmation), u.Email) {
		return fault.Newf(fault.Invalid, "the confirmation is not your email").WithHint("send your email as the confirmation")
	}
	if err := c.store.RemoveUser(ctx, by.ID); err != nil {
		return err
	}
	if _, err := c.store.Team(ctx, by.TeamID); fault.KindOf(err) == fault.NotFound {
		audited, err = c.inFirstTeam(ctx, by)
		return err
	}
	return nil
}

// Providers returns the issuers of the actor's accounts at OpenID providers.
func (c *Control) Providers(ctx context.Context, by Actor) ([]store.External, error) {
	return c.store.Externals(ctx, by.ID)
}
