package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Identity is the sender of a request with its permissions.
type Identity struct {
	Actor
	Role   store.Role
	Scopes []string // scopes of an API key; empty: everything that the role permits
}

// Scopes of API keys.
const (
	ScopeRead  = "read"  // everything that a viewer sees
	ScopeWrite = "write" // everything that a member does
)

// Scopes are all scopes.
var Scopes = []string{ScopeRead, ScopeWrite}

// Require fails with Permission if the identity's role does not include another role, or if its
// scopes do not permit it.
func (i Identity) Require(role store.Role) error {
	if !i.Role.Includes(role) {
		return fault.Newf(fault.Permission, "this needs the role %s, and you have the role %s", role, i.Role)
	}
	scope := ScopeWrite
	if role == store.RoleViewer {
		scope = ScopeRead
	}
	if len(i.Scopes) > 0 && !slices.Contains(i.Scopes, scope) && (scope != ScopeRead || !slices.Contains(i.Scopes, ScopeWrite)) {
		return fault.Newf(fault.Permission, "this needs an API key with the scope %s", scope)
	}
	return nil
}

// Format of API keys: a prefix that scanners for leaked keys can find, and 128 random bits in hex.
const (
	keyPrefix = "wrn_"
	keyShown  = 10 // characters that may be shown
)

// KeyHeader is the header of HTTP requests for API keys.
const KeyHeader = "X-API-Key"

// Bearer returns the token in the header Authorization of a request. It can be an API key, the
// token of a session, or a token for a program of the sandbox.
func Bearer(authorization string) (token secret.Value, ok bool) {
	kind, text, ok := strings.Cut(authorization, " ")
	return secret.New(strings.TrimSpace(text)), ok && strings.EqualFold(kind, "Bearer")
}

// IsKey reports whether a token has the form of an API key.
func IsKey(token secret.Value) bool { return strings.HasPrefix(token.Reveal(), keyPrefix) }

// lastUsedEvery is the precision of the time at which a key was last used.
const lastUsedEvery = time.Minute

// Errors that clients can distinguish from other errors of the same kind.
var (
	// ErrUnauthenticated means that the sender of a request is unknown. Errors that wrap it have
	// the kind Permission.
	ErrUnauthenticated = errors.New("no valid login")

	ErrWrongPassword = errors.New("the current password is wrong")
	ErrDisabled      = errors.New("the account is disabled")
	ErrNoTeam        = errors.New("you belong to no team")
	ErrOwnsTeam      = store.ErrOwnsTeam
)

func unauthenticated(reason string) *fault.Error {
	return fault.Newf(fault.Permission, "%w: %s", ErrUnauthenticated, reason)
}

// NewKey creates an API key for the team of a user, and returns it with its record. Nobody can read
// the key again later. expires may be zero.
func (c *Control) NewKey(ctx context.Context, by Actor, name string, scopes []string, expires time.Time) (store.Key, secret.Value, error) {
	now := c.clock().UTC()
	for _, s := range scopes {
		if !slices.Contains(Scopes, s) {
			return store.Key{}, secret.Value{}, fault.Newf(fault.Invalid, "%.40q is not a scope: it must be %s", s, strings.Join(Scopes, " or "))
		}
	}
	if !expires.IsZero() && !expires.After(now) {
		return store.Key{}, secret.Value{}, fault.Newf(fault.Invalid, "the expiry time is in the past")
	}
	var random [16]byte
	rand.Read(random[:])
	text := keyPrefix + hex.EncodeToString(random[:])
	key := secret.New(text)
	k := store.Key{
		ID: store.NewID(store.KeyPrefix), TeamID: by.TeamID, Name: name, Prefix: text[:keyShown], Hash: digest(key), Scopes: scopes,
		CreatedBy: by.ID, CreatedAt: now, ExpiresAt: expires,
	}
	err := c.store.AddKey(ctx, k)
	c.audit(ctx, by, actCreate, onKey, k.ID, err)
	return k, key, err
}

// Keys returns the API keys of the actor's team, the oldest first.
func (c *Control) Keys(ctx context.Context, by Actor) ([]store.Key, error) {
	return c.store.Keys(ctx, by.TeamID)
}

// RemoveKey removes an API key of a team. When RemoveKey returns, the key no longer works.
// Permission: a member removes the key of another user.
func (c *Control) RemoveKey(ctx context.Context, by Identity, id string) error {
	name := c.nameOf(ctx, by.TeamID, onKey, id)
	err := c.mayRemoveKey(ctx, by, id)
	if err == nil {
		err = c.store.RemoveKey(ctx, by.TeamID, id)
	}
	c.auditNamed(ctx, by.Actor, actDelete, onKey, id, name, err)
	return err
}

func (c *Control) mayRemoveKey(ctx context.Context, by Identity, id string) error {
	if by.Role.Includes(store.RoleAdmin) {
		return nil
	}
	k, err := c.store.Key(ctx, by.TeamID, id)
	if err == nil && k.CreatedBy != by.ID {
		return fault.New(fault.Permission, "delete API key", id, "another user made it").WithHint("ask an admin")
	}
	return err
}

// Audits returns entries of the audit log of a team, the latest first. Only admins see entries
// about people: about the team, its members, and their logins.
func (c *Control) Audits(ctx context.Context, by Identity, q store.AuditQuery) ([]store.Audit, error) {
	q.TeamID = by.TeamID
	if !by.Role.Includes(store.RoleAdmin) {
		q.Without = adminResources
	}
	return c.store.Audits(ctx, q)
}

// newToken returns a random secret of at least 128 bits, such as the token of a session.
func newToken() secret.Value { return secret.New(rand.Text()) }

// digest returns the stored form of a token or an API key.
func digest(token secret.Value) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return hex.EncodeToString(sum[:])
}

// KeyIdentity returns the identity for an API key. A key has at most the permissions of a member,
// and at most the current permissions of the user who created it.
func (c *Control) KeyIdentity(ctx context.Context, key secret.Value, address string) (Identity, error) {
	k, creator, err := c.store.KeyByHash(ctx, digest(key))
	now := c.clock()
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return Identity{}, unauthenticated("there is no such API key").WithHint("send an API key in the header " + KeyHeader)
	case err != nil:
		return Identity{}, err
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return Identity{}, unauthenticated("the API key has expired").WithHint("make a new one")
	case creator == "":
		return Identity{}, unauthenticated("the user who made the API key has left the team or is disabled").WithHint("make a new one")
	}
	if now.Sub(k.LastUsedAt) >= lastUsedEvery {
		if err := c.store.UseKey(ctx, k.ID, now); err != nil {
			c.log.Warn("record the use of an API key", "key", k.ID, "error", err)
		}
	}
	role := store.RoleMember
	if !creator.Includes(role) {
		role = creator
	}
	return Identity{Actor{store.ActorKey, k.ID, k.Name, k.TeamID, address}, role, k.Scopes}, nil
}

// sessionTime is how long a login is valid.
const sessionTime = 14 * 24 * time.Hour

// Session is a login of a user.
type Session struct {
	Identity
	Token   secret.Value // proves the login
	Expires time.Time
}

// Login begins a session of a user with a password. The session acts for the user's oldest team.
func (c *Control) Login(ctx context.Context, email string, password secret.Value, address string) (Session, error) {
	u, err := c.store.UserByEmail(ctx, email)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return Session{}, err
	}
	if !c.checkPassword(password, u.Password) || u.Disabled {
		return Session{}, unauthenticated("the email or the password is wrong")
	}
	return c.begin(ctx, u.ID, address)
}

// begin begins a session of a user for their oldest team, and records the login.
func (c *Control) begin(ctx context.Context, user, address string) (Session, error) {
	teams, err := c.store.Memberships(ctx, user)
	if err != nil {
		return Session{}, err
	}
	if len(teams) == 0 {
		return Session{}, fault.Newf(fault.Permission, "%w", ErrNoTeam).WithHint("ask an admin to add you")
	}
	now := c.clock().UTC()
	v, token := newSession(store.Session{UserID: user, TeamID: teams[0].TeamID, CreatedAt: now, ExpiresAt: now.Add(sessionTime)})
	if err := c.store.AddSession(ctx, v); err != nil {
		return Session{}, err
	}
	return c.begun(ctx, v, token, address)
}

// newSession generates a token for a session. It returns the session with the hash of the token,
// and the token.
func newSession(v store.Session) (store.Session, secret.Value) {
	token := newToken()
	v.Hash = digest(token)
	return v, token
}

// begun returns a session that was added, and records the login.
func (c *Control) begun(ctx context.Context, v store.Session, token secret.Value, address string) (Session, error) {
	i, err := c.sessionIdentity(ctx, v.Hash, address)
	if err == nil {
		c.audit(ctx, i.Actor, actLogin, onSession, i.ID, nil)
	}
	return Session{i, token, v.ExpiresAt}, err
}

// SwitchTeam replaces a session by a session for another team of the user. NotFound: the user is
// not a member of this team.
func (c *Control) SwitchTeam(ctx context.Context, by Actor, token secret.Value, team string) (Session, error) {
	if _, err := c.store.Member(ctx, team, by.ID); err != nil {
		if fault.KindOf(err) == fault.NotFound {
			err = fault.New(fault.NotFound, "switch to team", fault.Printable(team), "you belong to no such team")
		}
		return Session{}, err
	}
	old, err := c.store.Session(ctx, digest(token), c.clock())
	if err != nil {
		return Session{}, err
	}
	v, next := newSession(store.Session{UserID: by.ID, TeamID: team, CreatedAt: c.clock().UTC(), ExpiresAt: old.ExpiresAt})
	if err := c.store.ReplaceSession(ctx, old.Hash, v); err != nil {
		return Session{}, err
	}
	return c.begun(ctx, v, next, by.Address)
}

// User returns the user of a session. Permission: the actor is an API key.
func (c *Control) User(ctx context.Context, by Actor) (store.User, error) {
	if by.Type != store.ActorUser {
		return store.User{}, fault.Newf(fault.Permission, "an API key has no user").WithHint("log in with a password or a login link")
	}
	return c.store.User(ctx, by.ID)
}

// SessionIdentity returns the identity for the token of a session.
func (c *Control) SessionIdentity(ctx context.Context, token secret.Value, address string) (Identity, error) {
	return c.sessionIdentity(ctx, digest(token), address)
}

// sessionIdentity returns the identity for the hash of a session's token.
func (c *Control) sessionIdentity(ctx context.Context, hash, address string) (Identity, error) {
	v, err := c.store.Session(ctx, hash, c.clock())
	if fault.KindOf(err) == fault.NotFound {
		return Identity{}, unauthenticated("the session has ended").WithHint("log in")
	}
	if err != nil {
		return Identity{}, err
	}
	u, err := c.store.User(ctx, v.UserID)
	if err != nil {
		return Identity{}, err
	}
	if u.Disabled {
		return Identity{}, fault.Newf(fault.Permission, "%w", ErrDisabled)
	}
	m, err := c.store.Member(ctx, v.TeamID, v.UserID)
	if fault.KindOf(err) == fault.NotFound {
		return Identity{}, unauthenticated("you are no longer a member of the team").WithHint("log in again")
	}
	return Identity{Actor{store.ActorUser, u.ID, u.Name, v.TeamID, address}, m.Role, nil}, err
}

// Logout ends a session. It is idempotent.
func (c *Control) Logout(ctx context.Context, token secret.Value) error {
	return c.store.RemoveSession(ctx, digest(token))
}
