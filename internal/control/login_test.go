package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

func TestPasswords(t *testing.T) {
	c := &Control{hashMemory: hashMemory}
	hash, err := c.hashPassword(secret.New("correct horse"))
	if err != nil || !strings.HasPrefix(hash.Reveal(), "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Fatalf("%q, %v", hash.Reveal(), err)
	}
	other, err := c.hashPassword(secret.New("correct horse"))
	if err != nil || other.Reveal() == hash.Reveal() {
		t.Errorf("two hashes of a password are equal (%v)", err)
	}
	for password, want := range map[string]bool{"correct horse": true, "Correct horse": false, "": false, strings.Repeat("x", MaxPassword+1): false} {
		if got := c.checkPassword(secret.New(password), hash); got != want {
			t.Errorf("%.20q: got %v, want %v", password, got, want)
		}
	}
	for _, damaged := range []string{"", "hash", "$argon2id$v=19$m=65536,t=3,p=4$", "$argon2id$v=19$m=99999999,t=3,p=4$YWJj$YWJjZGVmZ2hpamtsbW5vcA", hash.Reveal()[:40]} {
		if c.checkPassword(secret.New("correct horse"), secret.New(damaged)) {
			t.Errorf("the hash %q was accepted", damaged)
		}
	}
	for _, bad := range []string{"", "1234567", strings.Repeat("x", MaxPassword+1)} {
		if _, err := c.hashPassword(secret.New(bad)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a password of %d bytes: %v", len(bad), err)
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=65536,t=3,p=4$YWJj$YWJjZGVmZ2hpamtsbW5vcA")
	f.Fuzz(func(t *testing.T, hash string) {
		_, memory, time, threads, salt, sum, ok := parseHash(hash)
		if ok && (memory > 2*hashMemory || time < 1 || time > 2*hashTime || threads < 1 || len(salt) == 0 || len(sum) < 16) {
			t.Errorf("%q was accepted", hash)
		}
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		now := time.Now()
		w.Control.clock = func() time.Time { return now }
		k, text, err := w.NewKey(t.Context(), w.by, "CI", []string{ScopeRead}, now.Add(time.Hour))
		if err != nil || !strings.HasPrefix(text.Reveal(), "wrn_") || len(text.Reveal()) != 36 || !strings.HasPrefix(text.Reveal(), k.Prefix) || len(k.Prefix) != 10 {
			t.Fatalf("%+v, %v", k, err)
		}
		i, err := w.KeyIdentity(t.Context(), text, "192.0.2.1")
		if err != nil || i.TeamID != w.by.TeamID || i.ID != k.ID || i.Address != "192.0.2.1" {
			t.Errorf("%+v, %v", i, err)
		}
		if err := i.Require(store.RoleViewer); err != nil {
			t.Error(err)
		}
		for _, role := range []store.Role{store.RoleMember, store.RoleAdmin} {
			if err := i.Require(role); fault.KindOf(err) != fault.Permission || errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: %v", role, err)
			}
		}
		if all, err := w.store.Keys(t.Context(), w.by.TeamID); err != nil || len(all) != 1 || all[0].LastUsedAt.IsZero() {
			t.Errorf("%+v, %v", all, err)
		}
		now = now.Add(time.Hour)
		for name, key := range map[string]secret.Value{"expired": text, "unknown": secret.New("wrn_0123"), "empty": {}} {
			if _, err := w.KeyIdentity(t.Context(), key, ""); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := w.NewKey(t.Context(), w.by, "", []string{"everything"}, time.Time{}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("an unknown scope: %v", err)
		}
		if _, _, err := w.NewKey(t.Context(), w.by, "", nil, now); fault.KindOf(err) != fault.Invalid {
			t.Errorf("an expired key: %v", err)
		}
	})
}

func TestLogin(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, now := t.Context(), time.Now()
		w.Control.clock = func() time.Time { return now }
		hash, err := w.hashPassword(secret.New("correct horse"))
		w.check(err)
		w.check(w.store.SetPassword(ctx, w.by.ID, hash))
		v, err := w.Login(ctx, "A@Example.com", secret.New("correct horse"), "")
		if err != nil || !v.Expires.After(now) {
			t.Fatal(v, err)
		}
		i, err := w.SessionIdentity(ctx, v.Token, "")
		if err != nil || i.Role != store.RoleOwner || i.TeamID != w.by.TeamID || i.ID != w.by.ID {
			t.Errorf("%+v, %v", i, err)
		}
		for email, password := range map[string]string{"a@example.com": "wrong horse", "nobody@example.com": "correct horse"} {
			if _, err := w.Login(ctx, email, secret.New(password), ""); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: %v", email, err)
			}
		}
		w.check(w.Logout(ctx, v.Token))
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("after the logout: %v", err)
		}
		v, err = w.Login(ctx, "a@example.com", secret.New("correct horse"), "")
		w.check(err)
		now = v.Expires
		if _, err := w.SessionIdentity(ctx, v.Token, ""); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestLoginLink checks that a login link works once, and for an hour.
func TestLoginLink(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, now := t.Context(), time.Now()
		w.Control.clock = func() time.Time { return now }
		if _, ok, err := w.OwnerLink(ctx); ok || err != nil {
			t.Errorf("a link for an owner who does not exist: %v, %v", ok, err)
		}
		owner := store.User{ID: store.NewID(store.UserPrefix), Email: firstOwner, CreatedAt: now}
		w.check(w.store.AddUser(ctx, owner))
		if _, ok, err := w.OwnerLink(ctx); ok || err != nil {
			t.Errorf("a link for an owner without a team: %v, %v", ok, err)
		}
		w.check(second(w.store.AddMember(ctx, w.by.TeamID, owner.ID, store.RoleOwner, store.RoleOwner, now)))
		used, ok, err := w.OwnerLink(ctx)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		v, err := w.LoginByLink(ctx, used, "192.0.2.1")
		w.check(err)
		u, err := w.User(ctx, v.Actor)
		if err != nil || u.Email != firstOwner || v.Role != store.RoleOwner {
			t.Errorf("%+v, %+v, %v", v, u, err)
		}
		late, _, err := w.OwnerLink(ctx)
		w.check(err)
		now = now.Add(linkTime)
		for what, token := range map[string]secret.Value{"used": used, "late": late, "unknown": secret.New("x")} {
			if _, err := w.LoginByLink(ctx, token, ""); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: %v", what, err)
			}
		}
		hash, err := w.hashPassword(secret.New("correct horse"))
		w.check(err)
		w.check(w.store.SetPassword(ctx, u.ID, hash))
		if _, ok, err := w.OwnerLink(ctx); ok || err != nil {
			t.Errorf("a link for an owner with a password: %v, %v", ok, err)
		}
	})
}

// TestRoles checks the permissions of each role.
func TestRoles(t *testing.T) {
	for i, have := range store.Roles {
		for j, need := range store.Roles {
			err := Identity{Role: have}.Require(need)
			if (err == nil) != (i <= j) {
				t.Errorf("a %s does what a %s may do: %v", have, need, err)
			}
		}
	}
	for scopes, want := range map[string]string{"": "viewer member", "read": "viewer", "write": "viewer member", "read write": "viewer member"} {
		var may []string
		for _, need := range []store.Role{store.RoleViewer, store.RoleMember} {
			if (Identity{Role: store.RoleMember, Scopes: strings.Fields(scopes)}).Require(need) == nil {
				may = append(may, string(need))
			}
		}
		if !slices.Equal(may, strings.Fields(want)) {
			t.Errorf("%q: got %q, want %q", scopes, may, want)
		}
	}
}

func TestSetUp(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		file := filepath.Join(t.TempDir(), "new", "folder", "key")
		for range 2 {
			w.check(w.SetUp(t.Context(), file))
			text, err := os.ReadFile(file)
			w.check(err)
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			i, err := w.KeyIdentity(t.Context(), secret.New(strings.TrimSpace(string(text))), "")
			if err != nil || i.Require(store.RoleMember) != nil {
				t.Errorf("%+v, %v", i, err)
			}
		}
		w.check(os.WriteFile(file, []byte("wrn_other\n"), 0o600))
		if err := w.SetUp(t.Context(), file); fault.KindOf(err) != fault.Precondition || fault.HintOf(err) == "" {
			t.Errorf("the key of another control plane: %v", err)
		}
	})
}
