package control

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// Times of access to previews.
const (
	MaxLinkTime      = 7 * 24 * time.Hour // maximum lifetime of a signed link
	previewTokenTime = time.Minute        // time limit for a browser to exchange a token for a cookie
	previewTime      = 12 * time.Hour     // lifetime of such a cookie
)

// Previews returns the ports of a sandbox that have settings for previews, the smallest first.
func (c *Control) Previews(ctx context.Context, by Actor, id string) ([]store.PreviewPort, error) {
	if _, err := c.store.Sandbox(ctx, by.TeamID, id); err != nil {
		return nil, err
	}
	return c.store.PreviewPorts(ctx, id)
}

// Preview returns the settings of one port of a sandbox.
func (c *Control) Preview(ctx context.Context, by Actor, id string, port int) (store.PreviewPort, error) {
	if _, err := c.store.Sandbox(ctx, by.TeamID, id); err != nil {
		return store.PreviewPort{}, err
	}
	return c.store.PreviewPort(ctx, id, port)
}

// SetPreview sets whether everybody may open a port of a sandbox.
func (c *Control) SetPreview(ctx context.Context, by Actor, id string, port int, public bool) error {
	return c.changePort(ctx, by, actShare, id, port, func() error {
		return c.store.SetPreviewPort(ctx, store.PreviewPort{SandboxID: id, Port: port, Public: public, LinkKey: newToken()})
	})
}

// ResetPreview makes a port private and ends its links.
func (c *Control) ResetPreview(ctx context.Context, by Actor, id string, port int) error {
	return c.changePort(ctx, by, actDelete, id, port, func() error { return c.store.RemovePreviewPort(ctx, id, port) })
}

// changePort changes the settings of a port of a sandbox, and adds an entry to the audit log.
func (c *Control) changePort(ctx context.Context, by Actor, action, id string, port int, change func() error) error {
	_, err := c.store.Sandbox(ctx, by.TeamID, id)
	if err == nil {
		err = change()
	}
	c.audit(ctx, by, action, onPort, id+":"+strconv.Itoa(port), err)
	return err
}

// NewPreviewLink returns the token of a link. Everybody can open a port of a sandbox with it.
func (c *Control) NewPreviewLink(ctx context.Context, by Actor, id string, port int, valid time.Duration) (token secret.Value, expires time.Time, err error) {
	if valid < time.Second || valid > MaxLinkTime {
		return token, expires, fault.New(fault.Invalid, "make a link", id, "it must be valid for 1 second to %v", MaxLinkTime)
	}
	expires = c.clock().UTC().Add(valid).Truncate(time.Second)
	err = c.changePort(ctx, by, actShare, id, port, func() error {
		p, err := c.store.LinkKey(ctx, id, port, newToken())
		token = signed(p, expires)
		return err
	})
	return token, expires, err
}

// signed returns the token of a link. It consists of the time at which the link expires, in seconds
// since 1970, and a signature.
func signed(p store.PreviewPort, expires time.Time) secret.Value {
	mac := hmac.New(sha256.New, []byte(p.LinkKey.Reveal()))
	fmt.Fprintf(mac, "preview link\n%s\n%d\n%d", p.SandboxID, p.Port, expires.Unix())
	return secret.New(strconv.FormatInt(expires.Unix(), 10) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}

// linkExpires checks the token of a link. It returns the time at which the link expires.
func (c *Control) linkExpires(p store.PreviewPort, token secret.Value) (expires time.Time, ok bool) {
	text, _, _ := strings.Cut(token.Reveal(), ".")
	unix, err := strconv.ParseInt(text, 10, 64)
	expires = time.Unix(unix, 0)
	ok = err == nil && c.clock().Before(expires) && hmac.Equal([]byte(token.Reveal()), []byte(signed(p, expires).Reveal()))
	return expires, ok
}

// PreviewToken returns a token that lets the browser of a session open a port of a sandbox. The
// browser exchanges the token once, within a minute, for a cookie of the preview. So the preview
// never sees the token of the session.
func (c *Control) PreviewToken(ctx context.Context, session secret.Value, id string, port int, address string) (secret.Value, error) {
	i, err := c.SessionIdentity(ctx, session, address)
	if err == nil {
		err = i.Require(store.RoleMember)
	}
	if err == nil {
		_, err = c.store.Sandbox(ctx, i.TeamID, id)
	}
	if err != nil {
		return secret.Value{}, err
	}
	token, now := newToken(), c.clock().UTC()
	err = c.store.AddPreviewLogin(ctx, store.PreviewLogin{
		Hash: digest(token), Session: digest(session), SandboxID: id, Port: port, ExpiresAt: now.Add(previewTokenTime),
	}, now)
	c.audit(ctx, i.Actor, actOpen, onPort, id+":"+strconv.Itoa(port), err)
	return token, err
}

// ExchangePreviewToken exchanges a token of PreviewToken for the cookie of a preview.
func (c *Control) ExchangePreviewToken(ctx context.Context, token secret.Value, id string, port int) (cookie secret.Value, expires time.Time, err error) {
	now := c.clock().UTC()
	cookie, expires = newToken(), now.Add(previewTime)
	err = c.store.ExchangePreviewLogin(ctx, digest(token), store.PreviewLogin{Hash: digest(cookie), SandboxID: id, Port: port, ExpiresAt: expires}, now)
	if fault.KindOf(err) == fault.NotFound {
		err = unauthenticated("the token was used, or it has expired").WithHint("open the preview again")
	}
	return cookie, expires, err
}

// PreviewPass contains the credentials in a request for a preview. Fields without a credential are
// empty.
type PreviewPass struct {
	Cookie  secret.Value // see ExchangePreviewToken
	Link    secret.Value // the token of a link
	Key     secret.Value // an API key
	Address string       // of the client
}

// Visitor is a client that is allowed to open a preview.
type Visitor struct {
	Actor               // acts for the team of the sandbox.
	LinkEnds  time.Time // when the link that allows it expires; zero without a link.
	Anonymous bool      // the client is not known, and is allowed because the port is public.
}

// Team reports whether the visitor belongs to the team of the sandbox.
func (v Visitor) Team() bool { return v.Type != store.ActorSystem }

// Visit checks whether a request is allowed to open a port of a sandbox. NotFound: there is no such
// sandbox. ErrUnauthenticated: no credential of the request is valid for the port.
func (c *Control) Visit(ctx context.Context, id string, port int, p PreviewPass) (Visitor, error) {
	b, err := c.store.Record(ctx, id)
	if err == nil && (b.Wanted == store.WantDeleted || !b.Made) {
		err = fault.New(fault.NotFound, "find sandbox", id, "no such sandbox")
	}
	if err != nil {
		return Visitor{}, err
	}
	by, err := c.previewUser(ctx, b, port, p)
	if err == nil {
		return Visitor{Actor: by}, nil
	}
	settings, storeErr := c.store.PreviewPort(ctx, id, port)
	if storeErr != nil {
		return Visitor{}, storeErr
	}
	system := Actor{Type: store.ActorSystem, ID: "preview", Name: "Preview", TeamID: b.TeamID, Address: p.Address}
	if settings.Public {
		return Visitor{Actor: system, Anonymous: true}, nil
	}
	if p.Link.Reveal() != "" && settings.LinkKey.Reveal() != "" {
		if ends, ok := c.linkExpires(settings, p.Link); ok {
			return Visitor{Actor: system, LinkEnds: ends}, nil
		}
	}
	return Visitor{}, err
}

// previewUser returns the user or the API key that a pass belongs to, if it is allowed to open
// previews of a sandbox.
func (c *Control) previewUser(ctx context.Context, b store.Sandbox, port int, p PreviewPass) (Actor, error) {
	i, err := Identity{}, error(unauthenticated("the preview is private"))
	switch {
	case p.Key.Reveal() != "":
		i, err = c.KeyIdentity(ctx, p.Key, p.Address)
	case p.Cookie.Reveal() != "":
		var session string
		session, err = c.store.PreviewSession(ctx, digest(p.Cookie), b.ID, port, c.clock())
		if err == nil {
			i, err = c.sessionIdentity(ctx, session, p.Address)
		} else if fault.KindOf(err) == fault.NotFound {
			err = unauthenticated("the login has ended")
		}
	}
	if err == nil && i.TeamID != b.TeamID {
		err = unauthenticated("the sandbox belongs to another team")
	}
	if err == nil {
		err = i.Require(store.RoleMember)
	}
	return i.Actor, err
}
