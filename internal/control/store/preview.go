package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// PreviewPort contains the preview settings of a port of a sandbox.
type PreviewPort struct {
	SandboxID string
	Port      int
	Public    bool         // everybody may open it
	LinkKey   secret.Value // signs its links
}

const previewFields = "sandbox_id, port, public, link_key"

func scanPreviewPort(r row) (p PreviewPort, err error) {
	var public int64
	var key string
	err = r.Scan(&p.SandboxID, &p.Port, &public, &key)
	p.Public, p.LinkKey = public != 0, secret.New(key)
	return p, err
}

// PreviewPort returns the settings of a port. A port without settings is private and has no key.
func (s *Store) PreviewPort(ctx context.Context, sandbox string, port int) (PreviewPort, error) {
	p, err := previewPort(ctx, s.read, sandbox, port)
	if fault.KindOf(err) == fault.NotFound {
		return PreviewPort{SandboxID: sandbox, Port: port}, nil
	}
	return p, s.fault(err)
}

func previewPort(ctx context.Context, from querier, sandbox string, port int) (PreviewPort, error) {
	return find(ctx, from, "port", "", scanPreviewPort, "SELECT "+previewFields+" FROM preview_ports WHERE sandbox_id = $1 AND port = $2", sandbox, port)
}

// PreviewPorts returns the ports of a sandbox that have settings, the smallest first.
func (s *Store) PreviewPorts(ctx context.Context, sandbox string) ([]PreviewPort, error) {
	all, err := collect(ctx, s.read, scanPreviewPort, "SELECT "+previewFields+" FROM preview_ports WHERE sandbox_id = $1 ORDER BY port", sandbox)
	return all, s.fault(err)
}

// SetPreviewPort sets whether a port is public. If the port already has a key for links, it keeps
// that key. Precondition: there is no such sandbox.
func (s *Store) SetPreviewPort(ctx context.Context, p PreviewPort) error {
	return s.exec(ctx, "INSERT INTO preview_ports ("+previewFields+`) VALUES ($1, $2, $3, $4)
		ON CONFLICT (sandbox_id, port) DO UPDATE SET public = excluded.public`, p.SandboxID, p.Port, number(p.Public), p.LinkKey.Reveal())
}

// LinkKey returns the key for the links of a port. The first call for a port stores the given key.
// Precondition: there is no such sandbox.
func (s *Store) LinkKey(ctx context.Context, sandbox string, port int, key secret.Value) (p PreviewPort, err error) {
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		_, err = tx.ExecContext(ctx, "INSERT INTO preview_ports ("+previewFields+") VALUES ($1, $2, 0, $3) ON CONFLICT (sandbox_id, port) DO NOTHING", sandbox, port, key.Reveal())
		if err == nil {
			p, err = previewPort(ctx, tx, sandbox, port)
		}
		return err
	})
	return p, err
}

// RemovePreviewPort removes the settings of a port. The port is then private, and its links are
// invalid. Idempotent.
func (s *Store) RemovePreviewPort(ctx context.Context, sandbox string, port int) error {
	return s.exec(ctx, "DELETE FROM preview_ports WHERE sandbox_id = $1 AND port = $2", sandbox, port)
}

// PreviewLogin allows the user of a session to open a port, until the session ends.
type PreviewLogin struct {
	Hash      string // SHA-256 of the token or of the cookie in hex
	Session   string // the hash of the session
	SandboxID string
	Port      int
	ExpiresAt time.Time
}

// AddPreviewLogin adds a login. Its token can be exchanged for a cookie once. AddPreviewLogin also
// removes expired logins. Precondition: the session or the sandbox no longer exists.
func (s *Store) AddPreviewLogin(ctx context.Context, l PreviewLogin, now time.Time) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM preview_logins WHERE expires_at <= $1", micros(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO preview_logins (hash, kind, session, sandbox_id, port, expires_at) VALUES ($1, 'token', $2, $3, $4, $5)",
			l.Hash, l.Session, l.SandboxID, l.Port, micros(l.ExpiresAt))
		return err
	})
}

// ExchangePreviewLogin replaces the hash of a token by the hash of a cookie. NotFound: the token
// was used, has expired, or is for another port.
func (s *Store) ExchangePreviewLogin(ctx context.Context, token string, cookie PreviewLogin, now time.Time) error {
	return s.changeOne(ctx, "token", "", `UPDATE preview_logins SET hash = $1, kind = 'cookie', expires_at = $2
		WHERE hash = $3 AND kind = 'token' AND sandbox_id = $4 AND port = $5 AND expires_at > $6`,
		cookie.Hash, micros(cookie.ExpiresAt), token, cookie.SandboxID, cookie.Port, micros(now))
}

// PreviewSession returns the hash of the session that a preview's cookie belongs to. NotFound: the
// cookie has expired, is for another port, or its session has ended.
func (s *Store) PreviewSession(ctx context.Context, cookie, sandbox string, port int, now time.Time) (session string, err error) {
	session, err = find(ctx, s.read, "login", "", scanText,
		"SELECT session FROM preview_logins WHERE hash = $1 AND kind = 'cookie' AND sandbox_id = $2 AND port = $3 AND expires_at > $4",
		cookie, sandbox, port, micros(now))
	return session, s.fault(err)
}
