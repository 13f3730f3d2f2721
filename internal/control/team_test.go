package control

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// as returns the identity of a member of the team.
func (w *world) as(user string, role store.Role) Identity {
	return Identity{Actor: Actor{Type: store.ActorUser, ID: user, TeamID: w.by.TeamID}, Role: role}
}

func (w *world) owner() Identity { return w.as(w.by.ID, store.RoleOwner) }

// invite adds a new user to the team.
func (w *world) invite(email string, role store.Role) (store.Member, LoginLink) {
	w.t.Helper()
	m, link, err := w.AddMember(w.t.Context(), w.owner(), email, role)
	w.check(err)
	return m, link
}

func (w *world) wants(what string, err error, kind fault.Kind) {
	w.t.Helper()
	if fault.KindOf(err) != kind {
		w.t.Errorf("%s: got %v, want kind %q", what, err, kind)
	}
}

// TestInvite follows a new user from the invitation to a login with a password.
func TestInvite(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, link := w.invite(" New@Example.com ", store.RoleAdmin)
		if m.Email != "new@example.com" || m.Name != "new" || m.Role != store.RoleAdmin || link.Token.Reveal() == "" {
			t.Errorf("%+v, %+v", m, link)
		}
		_, _, err := w.AddMember(ctx, w.owner(), "new@example.com", store.RoleViewer)
		w.wants("a member", err, fault.Exists)
		for _, email := range []string{"", "new", "a b@example.com", "New <new@example.com>", strings.Repeat("a", 320) + "@example.com"} {
			_, _, err := w.AddMember(ctx, w.owner(), email, store.RoleViewer)
			w.wants(email, err, fault.Invalid)
		}
		_, _, err = w.AddMember(ctx, w.as(m.UserID, store.RoleAdmin), "other@example.com", store.RoleOwner)
		w.wants("an admin adds an owner", err, fault.Permission)

		v, err := w.LoginByLink(ctx, link.Token, "")
		w.check(err)
		w.wants("a short password", w.ChangePassword(ctx, v.Actor, secret.Value{}, secret.New("short")), fault.Invalid)
		w.check(w.ChangePassword(ctx, v.Actor, secret.Value{}, secret.New("correct horse")))
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("a session survived the change of the password: %v", err)
		}
		if err := w.ChangePassword(ctx, v.Actor, secret.New("wrong horse"), secret.New("another horse")); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("with a wrong password: %v", err)
		}
		_, err = w.Login(ctx, "new@example.com", secret.New("correct horse"), "")
		w.check(err)
	})
}

// TestLoginLinksOfMembers checks that an admin can't use login links to get access to other teams.
func TestLoginLinksOfMembers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		// The world's team is the first one, so its owner is an operator.
		b, err := w.CreateTeam(ctx, w.by, "B")
		w.check(err)
		admin := Identity{Actor{Type: store.ActorUser, ID: store.NewID(store.UserPrefix), TeamID: b.ID}, store.RoleAdmin, nil}
		w.check(w.store.Invite(ctx, b.ID, store.User{ID: admin.ID, Email: "admin@example.com", CreatedAt: time.Now()}, admin.Role, store.RoleOwner, time.Now()))

		fresh, _, err := w.Control.AddMember(ctx, admin, "fresh@example.com", store.RoleMember)
		w.check(err)
		link, err := w.NewLoginLink(ctx, admin, fresh.UserID)
		w.check(err)
		_, err = w.LoginByLink(ctx, link.Token, "")
		w.check(err)

		invited, _ := w.invite("invited@example.com", store.RoleMember)
		_, _, err = w.Control.AddMember(ctx, admin, "invited@example.com", store.RoleMember)
		w.wants("a user of another team", err, fault.Permission)
		_, _, err = w.Control.AddMember(ctx, admin, "fresh@example.com", store.RoleMember)
		w.wants("a member", err, fault.Exists)
		w.check(second(w.store.AddMember(ctx, b.ID, invited.UserID, store.RoleMember, store.RoleOwner, time.Now())))
		_, err = w.NewLoginLink(ctx, admin, invited.UserID)
		w.wants("a user of another team", err, fault.Permission)
		_, err = w.NewLoginLink(ctx, admin, w.by.ID)
		w.wants("an owner", err, fault.Permission)
		hash, err := w.hashPassword(secret.New("correct horse"))
		w.check(err)
		w.check(w.store.SetPassword(ctx, fresh.UserID, hash))
		_, err = w.NewLoginLink(ctx, admin, fresh.UserID)
		w.wants("a user with a password", err, fault.Permission)
		operator := Identity{w.by, store.RoleOwner, nil}
		operator.TeamID = b.ID
		_, err = w.NewLoginLink(ctx, operator, fresh.UserID)
		w.check(err)
		_, err = w.NewLoginLink(ctx, operator, "usr-none")
		w.wants("nobody", err, fault.NotFound)
	})
}

// TestAddExistingUser checks that the person who invited a user first gets no access to another
// team that the user joins.
func TestAddExistingUser(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		b, err := w.CreateTeam(ctx, w.by, "B")
		w.check(err)
		operator, admin := Identity{w.by, store.RoleOwner, nil}, Identity{Actor{Type: store.ActorUser, ID: store.NewID(store.UserPrefix), TeamID: b.ID}, store.RoleOwner, nil}
		operator.TeamID = b.ID
		w.check(w.store.Invite(ctx, b.ID, store.User{ID: admin.ID, Email: "admin@example.com", CreatedAt: time.Now()}, admin.Role, store.RoleOwner, time.Now()))

		bob, first := w.invite("bob@example.com", store.RoleMember)
		other, err := w.newLink(ctx, bob.UserID, time.Hour)
		w.check(err)
		v, err := w.LoginByLink(ctx, first.Token, "")
		w.check(err)
		_, _, err = w.Control.AddMember(ctx, admin, "bob@example.com", store.RoleMember)
		w.wants("an admin adds a user of another team", err, fault.Permission)
		if _, err := w.SessionIdentity(ctx, v.Token, ""); err != nil {
			t.Errorf("the session of a user who was not added: %v", err)
		}
		_, link, err := w.Control.AddMember(ctx, operator, "bob@example.com", store.RoleMember)
		w.check(err)
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the session of the first inviter: %v", err)
		}
		if _, err := w.LoginByLink(ctx, other, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the link of the first inviter: %v", err)
		}
		if v, err := w.LoginByLink(ctx, link.Token, ""); err != nil || v.ID != bob.UserID {
			t.Errorf("%+v, %v", v, err)
		}

		ann, _ := w.invite("ann@example.com", store.RoleMember)
		w.check(w.store.SetPassword(ctx, ann.UserID, secret.New("hash")))
		_, _, err = w.Control.AddMember(ctx, admin, "ann@example.com", store.RoleMember)
		w.wants("an admin adds a user with a password", err, fault.Permission)
		_, link, err = w.Control.AddMember(ctx, operator, "ann@example.com", store.RoleMember)
		if err != nil || link.Token.Reveal() != "" {
			t.Errorf("a link for a user with a password: %v", err)
		}
		w.invite("eve@example.com", store.RoleMember)
		_, err = w.LoginExternal(ctx, External{store.External{Issuer: "https://id.example", Subject: "1"}, "eve@example.com", true, "Eve"}, nil, "")
		w.check(err)
		_, link, err = w.Control.AddMember(ctx, admin, "eve@example.com", store.RoleMember)
		if err != nil || link.Token.Reveal() != "" {
			t.Errorf("a link for a user with an account at a provider: %v", err)
		}
	})
}

// TestRemovedMember checks that the keys and sessions of a removed, demoted or disabled user stop
// working.
func TestRemovedMember(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, link := w.invite("a@example.org", store.RoleMember)
		v, err := w.LoginByLink(ctx, link.Token, "")
		w.check(err)
		_, key, err := w.NewKey(ctx, v.Actor, "test", nil, time.Time{})
		w.check(err)
		usable := func() error {
			i, err := w.KeyIdentity(ctx, key, "")
			if err != nil {
				return err
			}
			return i.Require(store.RoleMember)
		}
		w.check(usable())
		w.check(w.SetRole(ctx, w.owner(), m.UserID, store.RoleViewer))
		w.wants("the key of a viewer", usable(), fault.Permission)
		if i, err := w.SessionIdentity(ctx, v.Token, ""); err != nil || i.Role != store.RoleViewer {
			t.Errorf("%+v, %v", i, err)
		}
		w.check(w.SetRole(ctx, w.owner(), m.UserID, store.RoleAdmin))
		w.check(usable())
		w.check(w.store.SetDisabled(ctx, m.UserID, true))
		if err := usable(); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the key of a disabled user: %v", err)
		}
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrDisabled) {
			t.Errorf("the session of a disabled user: %v", err)
		}
		w.check(w.store.SetDisabled(ctx, m.UserID, false))
		w.check(usable())
		w.check(w.RemoveMember(ctx, w.owner(), m.UserID))
		if err := usable(); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the key of a removed member: %v", err)
		}
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the session of a removed member: %v", err)
		}
		w.wants("the last owner leaves", w.LeaveTeam(ctx, w.owner()), fault.Precondition)
	})
}

// TestKeysOfOthers checks who can delete an API key.
func TestKeysOfOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, _ := w.invite("a@example.org", store.RoleMember)
		member := w.as(m.UserID, store.RoleMember)
		of := func(by Identity) string {
			k, _, err := w.NewKey(ctx, by.Actor, "test", nil, time.Time{})
			w.check(err)
			return k.ID
		}
		own, owners := of(member), of(w.owner())
		w.wants("the key of the owner", w.RemoveKey(ctx, member, owners), fault.Permission)
		w.wants("no key", w.RemoveKey(ctx, member, "key-none"), fault.NotFound)
		w.check(w.RemoveKey(ctx, member, own))
		w.check(w.RemoveKey(ctx, w.owner(), of(member)))
	})
}

// TestOperators checks that only owners of the first team create teams and set quotas.
func TestOperators(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, _ := w.invite("a@example.org", store.RoleAdmin)
		admin := w.as(m.UserID, store.RoleAdmin).Actor
		b, err := w.CreateTeam(ctx, w.by, "Team Ü 1")
		if err != nil || b.Role != store.RoleOwner || !strings.HasPrefix(b.Slug, "team-1-") {
			t.Errorf("%+v, %v", b, err)
		}
		w.check(second(w.store.AddMember(ctx, b.ID, m.UserID, store.RoleOwner, store.RoleOwner, time.Now())))
		key := Actor{Type: store.ActorKey, ID: w.by.ID, TeamID: w.by.TeamID}
		for name, by := range map[string]Actor{"an admin": admin, "a key": key} {
			_, err = w.CreateTeam(ctx, by, "C")
			w.wants(name, err, fault.Permission)
			_, err = w.SetQuota(ctx, by, b.ID, store.Quota{Sandboxes: 1})
			w.wants(name, err, fault.Permission)
			_, err = w.AllTeams(ctx, by)
			w.wants(name, err, fault.Permission)
		}
		q, err := w.SetQuota(ctx, w.by, w.by.TeamID, store.Quota{Sandboxes: 1, DiskMB: 2048})
		if err != nil || q.Quota != (store.Quota{Sandboxes: 1, DiskMB: 2048}) {
			t.Errorf("%+v, %v", q, err)
		}
		w.create()
		_, err = w.CreateSandbox(ctx, w.by, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
		w.wants("beyond the quota", err, fault.Exhausted)
		all, err := w.AllTeams(ctx, w.by)
		if err != nil || len(all) != 2 || all[0].Used != (store.Used{Sandboxes: 1, VCPUs: 1, MemoryMB: 512, DiskMB: 1024}) {
			t.Errorf("%+v, %v", all, err)
		}
		if teams, err := w.TeamsOf(ctx, w.by); err != nil || len(teams) != 2 || teams[1].ID != b.ID {
			t.Errorf("%+v, %v", teams, err)
		}
	})
}

// TestDeleteTeamsAndUsers checks which teams and users can be deleted.
func TestDeleteTeamsAndUsers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.wants("the first team", w.DeleteTeam(ctx, w.by), fault.Precondition)
		w.wants("the only operator", w.DeleteUser(ctx, w.by, "A@example.com"), fault.Precondition)
		m, link := w.invite("a@example.org", store.RoleOwner)
		v, err := w.LoginByLink(ctx, link.Token, "")
		w.check(err)
		b, err := w.CreateTeam(ctx, v.Actor, "B")
		w.check(err)
		before := v.Token
		v, err = w.SwitchTeam(ctx, v.Actor, v.Token, b.ID)
		w.check(err)
		if _, err := w.SessionIdentity(ctx, before, ""); !errors.Is(err, ErrUnauthenticated) || v.TeamID != b.ID || v.Role != store.RoleOwner {
			t.Errorf("%+v, %v", v, err)
		}
		_, err = w.SwitchTeam(ctx, w.by, v.Token, b.ID)
		w.wants("to a team of others", err, fault.NotFound)

		other := store.User{ID: store.NewID(store.UserPrefix), Email: "b@example.org", CreatedAt: time.Now()}
		w.check(w.store.Invite(ctx, b.ID, other, store.RoleAdmin, store.RoleOwner, time.Now()))
		if err := w.DeleteUser(ctx, v.Actor, "a@example.org"); !errors.Is(err, ErrOwnsTeam) {
			t.Errorf("the only owner of a team: %v", err)
		}
		w.check(w.store.RemoveMember(ctx, b.ID, other.ID, store.RoleOwner))
		c, err := w.CreateSandbox(ctx, v.Actor, Create{Template: "minimal", VCPUs: 1, MemoryMB: 512, DiskMB: 1024})
		w.check(err)
		w.wants("a team with a sandbox", w.DeleteTeam(ctx, v.Actor), fault.Precondition)
		w.wants("the user of a team with a sandbox", w.DeleteUser(ctx, v.Actor, "a@example.org"), fault.Precondition)
		w.check(w.DeleteSandbox(ctx, v.Actor, c.ID))
		w.wants("another confirmation", w.DeleteUser(ctx, v.Actor, "a@example.com"), fault.Invalid)
		w.check(w.DeleteUser(ctx, v.Actor, "a@example.org"))
		_, err = w.store.Team(ctx, b.ID)
		w.wants("the team of a deleted user", err, fault.NotFound)
		if members, err := w.Members(ctx, w.by); err != nil || len(members) != 1 {
			t.Errorf("%+v, %v", members, err)
		}
		log, err := w.Audits(ctx, w.owner(), store.AuditQuery{Limit: 10})
		if err != nil || log[0].Action != actDelete || log[0].Resource != onUser || log[0].Subject != m.UserID {
			t.Errorf("%+v, %v", log, err)
		}
		b, err = w.CreateTeam(ctx, w.by, "B")
		w.check(err)
		in := w.by
		in.TeamID = b.ID
		w.check(w.DeleteTeam(ctx, in))
		log, err = w.Audits(ctx, w.as(w.by.ID, store.RoleMember), store.AuditQuery{Limit: 10})
		if err != nil || len(log) != 0 {
			t.Errorf("a member sees %+v, %v", log, err)
		}
	})
}

// TestExternal logs in with accounts at providers.
func TestExternal(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		at := func(subject, email string, verified bool) External {
			return External{store.External{Issuer: "https://id.example", Subject: subject}, email, verified, "Ann"}
		}
		m, link := w.invite("ann@example.com", store.RoleAdmin)
		v, err := w.LoginByLink(ctx, link.Token, "")
		w.check(err)
		_, key, err := w.NewKey(ctx, v.Actor, "of the inviter", nil, time.Time{})
		w.check(err)
		w.check(w.ChangePassword(ctx, v.Actor, secret.Value{}, secret.New("of the inviter")))
		_, err = w.LoginExternal(ctx, at("1", "ann@example.com", false), nil, "")
		w.wants("an email that is not verified", err, fault.Permission)
		_, err = w.LoginExternal(ctx, at("1", "nobody@example.com", true), []string{"example.org"}, "")
		w.wants("an unknown email", err, fault.Permission)
		for range 2 {
			v, err = w.LoginExternal(ctx, at("1", "Ann@example.com", true), nil, "")
			if err != nil || v.ID != m.UserID || v.Role != store.RoleAdmin {
				t.Fatalf("%+v, %v", v, err)
			}
		}
		if _, err := w.Login(ctx, "ann@example.com", secret.New("of the inviter"), ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the password of the inviter: %v", err)
		}
		if _, err := w.KeyIdentity(ctx, key, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("the API key of the inviter: %v", err)
		}
		_, err = w.LoginExternal(ctx, at("2", "ann@example.com", true), nil, "")
		w.wants("another account with the email", err, fault.Precondition)
		v, err = w.LoginExternal(ctx, at("1", "renamed@example.com", false), nil, "")
		if err != nil || v.ID != m.UserID {
			t.Errorf("%+v, %v", v, err)
		}
		for range 2 {
			v, err = w.LoginExternal(ctx, at("3", "new@Example.Org", true), []string{"example.org"}, "")
			if err != nil || v.Role != store.RoleMember || v.TeamID != w.by.TeamID || v.Name != "Ann" {
				t.Errorf("%+v, %v", v, err)
			}
		}
		_, err = w.LoginExternal(ctx, at("4", "x@sub.example.org", true), []string{"example.org"}, "")
		w.wants("a subdomain", err, fault.Permission)
		w.check(w.store.SetDisabled(ctx, m.UserID, true))
		if _, err := w.LoginExternal(ctx, at("1", "", false), nil, ""); !errors.Is(err, ErrDisabled) {
			t.Errorf("a disabled user: %v", err)
		}
	})
}
