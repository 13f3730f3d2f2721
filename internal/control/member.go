package control

import (
	"cmp"
	"context"
	"net/mail"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// askOperator is the hint of errors for actions that only operators can do.
const askOperator = "ask an operator of the server, who is an owner of the first team"

// inviteTime is how long the login link of a new user is valid.
const inviteTime = 7 * 24 * time.Hour

// Members returns the members of the team for which an actor acts, sorted by email.
func (c *Control) Members(ctx context.Context, by Actor) ([]store.Member, error) {
	return c.store.Members(ctx, by.TeamID)
}

// LoginLink is a link that logs a user in once.
type LoginLink struct {
	Token   secret.Value // empty: there is no link
	Expires time.Time
}

// AddMember adds the user with an email to the team for which the actor acts. If no user has this
// email, it creates the user. It returns a login link if the user has neither a password nor an
// account at a provider. Earlier links and sessions of the user then end. Exists: the user is
// already a member. Permission: only owners can add owners, and only operators can add a user who
// exists and has no account at a provider.
func (c *Control) AddMember(ctx context.Context, by Identity, email string, role store.Role) (m store.Member, link LoginLink, err error) {
	var user string
	defer func() { c.audit(ctx, by.Actor, actAdd, onMember, user, err) }()
	if email, err = checkEmail(email); err != nil {
		return m, link, err
	}
	now := c.clock().UTC()
	u, err := c.store.UserByEmail(ctx, email)
	switch fault.KindOf(err) {
	case "":
		user = u.ID
		if err = c.checkExisting(ctx, by, u); err != nil {
			break
		}
		var invited bool
		if invited, err = c.store.AddMember(ctx, by.TeamID, u.ID, role, by.Role, now); invited && err == nil {
			link, err = c.loginLink(ctx, u.ID)
		}
	case fault.NotFound:
		name, _, _ := strings.Cut(email, "@")
		u = store.User{ID: store.NewID(store.UserPrefix), Email: email, Name: name, CreatedAt: now}
		user = u.ID
		if err = c.store.Invite(ctx, by.TeamID, u, role, by.Role, now); err == nil {
			link, err = c.loginLink(ctx, u.ID)
		}
	}
	if err != nil {
		return m, link, err
	}
	m, err = c.store.Member(ctx, by.TeamID, u.ID)
	return m, link, err
}

// checkExisting fails with Permission if the actor may not add an existing user to the team. The
// email does not prove that the person has the account: the person who invited the user first can
// have used the login link. A provider has checked the email, and an operator can ask the user.
func (c *Control) checkExisting(ctx context.Context, by Identity, u store.User) error {
	if operator, err := c.Operator(ctx, by.Actor); operator || err != nil {
		return err
	}
	if _, err := c.store.Member(ctx, by.TeamID, u.ID); fault.KindOf(err) != fault.NotFound {
		return err // if the user is a member, the store reports that
	}
	external, err := c.store.Externals(ctx, u.ID)
	if err != nil || len(external) > 0 {
		return err
	}
	return fault.New(fault.Permission, "add member", u.Email, "the user exists, and has no account at an OpenID provider").WithHint(askOperator)
}

func (c *Control) loginLink(ctx context.Context, user string) (LoginLink, error) {
	token, err := c.newLink(ctx, user, inviteTime)
	return LoginLink{token, c.clock().UTC().Add(inviteTime)}, err
}

// maxEmail is the maximum length of an email address, in bytes.
const maxEmail = 320

// checkEmail returns an email address in lower case. Invalid: the text is not an email address.
func checkEmail(email string) (string, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	a, err := mail.ParseAddress(email)
	if err != nil || a.Address != email || len(email) > maxEmail {
		return "", fault.Newf(fault.Invalid, "%.80q is not an email address", email)
	}
	return email, nil
}

// NewLoginLink returns a login link for a member of the team for which the actor acts.
//
// The actor can use the link to log in as the member. So NewLoginLink fails with Permission if the
// member has a password or is in another team, unless the actor is an operator.
func (c *Control) NewLoginLink(ctx context.Context, by Identity, user string) (link LoginLink, err error) {
	defer func() { c.audit(ctx, by.Actor, actLink, onMember, user, err) }()
	m, err := c.store.Member(ctx, by.TeamID, user)
	if err != nil {
		return link, err
	}
	if !by.Role.Includes(m.Role) {
		return link, fault.New(fault.Permission, "make a login link for member", user, "only an owner can do this for an owner")
	}
	operator, err := c.Operator(ctx, by.Actor)
	if err != nil {
		return link, err
	}
	if !operator {
		if fresh, err := c.fresh(ctx, user); err != nil || !fresh {
			return link, cmp.Or(err, error(fault.New(fault.Permission, "make a login link for member", user, "the member has a password, or is in another team").
				WithHint(askOperator)))
		}
	}
	return c.loginLink(ctx, user)
}

// fresh reports whether a user has only been invited: they have no password, no account at a
// provider, and no other team.
func (c *Control) fresh(ctx context.Context, user string) (bool, error) {
	u, err := c.store.User(ctx, user)
	if err != nil {
		return false, err
	}
	external, err := c.store.Externals(ctx, user)
	if err != nil {
		return false, err
	}
	teams, err := c.store.Memberships(ctx, user)
	return u.Password.Reveal() == "" && len(external) == 0 && len(teams) == 1, err
}

// SetRole changes the role of a member of the team for which the actor acts. Permission: only
// owners can change owners. Precondition: the team would have no owner.
func (c *Control) SetRole(ctx context.Context, by Identity, user string, role store.Role) error {
	err := c.store.SetRole(ctx, by.TeamID, user, role, by.Role)
	c.audit(ctx, by.Actor, actUpdate, onMember, user, err)
	return err
}

// RemoveMember removes a member from the team for which the actor acts. The member's sessions and
// keys end immediately. Permission: only owners can remove owners. Precondition: the team would
// have no owner.
func (c *Control) RemoveMember(ctx context.Context, by Identity, user string) error {
	name := c.nameOf(ctx, by.TeamID, onMember, user)
	err := c.store.RemoveMember(ctx, by.TeamID, user, by.Role)
	c.auditNamed(ctx, by.Actor, actRemove, onMember, user, name, err)
	return err
}

// LeaveTeam removes the actor from the team for which they act. Precondition: the team would have
// no owner.
func (c *Control) LeaveTeam(ctx context.Context, by Identity) error {
	err := c.store.RemoveMember(ctx, by.TeamID, by.ID, by.Role)
	c.audit(ctx, by.Actor, actLeave, onMember, by.ID, err)
	return err
}

// maxFound is the maximum number of users that a search finds.
const maxFound = 10

// SearchUsers returns users whose emails begin with a text.
func (c *Control) SearchUsers(ctx context.Context, begin string) ([]store.User, error) {
	return c.store.UsersByEmail(ctx, begin, maxFound)
}
