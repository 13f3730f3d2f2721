package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// The first team and its owner. The owner has no password: a login link or a later password lets
// them log in.
const (
	firstTeam  = "Default team"
	firstSlug  = "default"
	firstOwner = "owner@localhost"
)

// SetUp creates the first team, its owner and its first API key, if there is no team. It writes the
// key to a file with mode 0600 if the file does not exist. It also creates the folder of the file.
// SetUp is idempotent: if it was interrupted, the next call finishes it.
func (c *Control) SetUp(ctx context.Context, keyFile string) error {
	by, err := c.first(ctx)
	if err != nil || keyFile == "" {
		return err
	}
	text, err := os.ReadFile(keyFile)
	if err == nil {
		_, err := c.KeyIdentity(ctx, secret.New(strings.TrimSpace(string(text))), "")
		if errors.Is(err, ErrUnauthenticated) {
			err = fault.New(fault.Precondition, "use the API key in", keyFile, "this control plane does not know it").WithHint("remove the file, and pyro serve writes a new key")
		}
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, "read the API key in", keyFile)
	}
	if err := os.MkdirAll(filepath.Dir(keyFile), 0o700); err != nil {
		return fault.Wrap(err, "write the API key to", keyFile)
	}
	_, key, err := c.NewKey(ctx, by, "first key", nil, time.Time{})
	if err != nil {
		return err
	}
	return fault.Wrap(durable.Replace(keyFile, []byte(key.Reveal()+"\n")), "write the API key to", keyFile)
}

// first returns an owner of the first team. If there is no team, it creates the team and its owner.
func (c *Control) first(ctx context.Context) (Actor, error) {
	t, err := c.store.FirstTeam(ctx)
	if fault.KindOf(err) == fault.NotFound {
		return c.makeFirst(ctx)
	}
	if err != nil {
		return Actor{}, err
	}
	members, err := c.store.Members(ctx, t.ID)
	if err != nil {
		return Actor{}, err
	}
	i := slices.IndexFunc(members, func(m store.Member) bool { return m.Role == store.RoleOwner })
	if i < 0 {
		return Actor{}, fault.New(fault.Corrupt, "find an owner of team", t.ID, "the team has no owner")
	}
	return Actor{Type: store.ActorSystem, ID: members[i].UserID, Name: members[i].Name, TeamID: t.ID}, nil
}

func (c *Control) makeFirst(ctx context.Context) (Actor, error) {
	u, err := c.store.UserByEmail(ctx, firstOwner)
	if fault.KindOf(err) == fault.NotFound {
		u = store.User{ID: store.NewID(store.UserPrefix), Email: firstOwner, Name: "Owner", CreatedAt: c.clock().UTC()}
		err = c.store.AddUser(ctx, u)
	}
	if err != nil {
		return Actor{}, err
	}
	t := store.Team{ID: store.NewID(store.TeamPrefix), Name: firstTeam, Slug: firstSlug, CreatedAt: c.clock().UTC()}
	return Actor{Type: store.ActorSystem, ID: u.ID, Name: u.Name, TeamID: t.ID}, c.store.AddTeam(ctx, t, u.ID)
}
