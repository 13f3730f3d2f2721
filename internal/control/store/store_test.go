package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/control/store/storetest"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// each runs a test on a new store of each kind. The store contains only a team with its owner.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	storetest.Each(t, func(t *testing.T, address string) {
		w := &world{Store: storetest.Open(t, address), address: address, now: time.UnixMicro(1_800_000_000_123_456).UTC()}
		w.owner = w.user(t, "Owner@Example.com")
		w.team = w.addTeam(t, "one", w.owner)
		h, err := w.SeeHost(t.Context(), "key", "here", w.now)
		check(t, err)
		w.host = h.ID
		test(t, w)
	})
}

// world is a store with some records.
type world struct {
	*store.Store
	address           string
	now               time.Time
	team, owner, host string
}

func second[T any](_ T, err error) error { return err }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != kind {
		t.Errorf("%s: got %v, want kind %q", what, err, kind)
	}
}

func (w *world) user(t *testing.T, email string) string {
	t.Helper()
	u := store.User{ID: store.NewID(store.UserPrefix), Email: email, Name: "Somebody", Password: secret.New("hash"), CreatedAt: w.now}
	check(t, w.AddUser(t.Context(), u))
	return u.ID
}

func (w *world) addTeam(t *testing.T, slug, owner string) string {
	t.Helper()
	team := store.Team{ID: store.NewID(store.TeamPrefix), Name: "Team " + slug, Slug: slug, CreatedAt: w.now}
	check(t, w.AddTeam(t.Context(), team, owner))
	return team.ID
}

func (w *world) newSandbox() store.NewSandbox {
	return store.NewSandbox{Sandbox: store.Sandbox{
		ID: store.NewID(store.SandboxPrefix), TeamID: w.team, HostID: w.host, Wanted: store.WantRunning, Status: store.StatusPending,
		Template: "minimal", VCPUs: 2, MemoryMB: 512, DiskMB: 1024, TimeoutSec: 60, Metadata: map[string]string{"a": "b"}, CreatedBy: w.owner,
		CreatedAt: w.now, UpdatedAt: w.now,
	}}
}

// TestReopened opens a database again, sequentially and concurrently.
func TestReopened(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := store.Open(t.Context(), w.address)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if got, err := s.Team(t.Context(), w.team); err != nil || got.Slug != "one" || !got.CreatedAt.Equal(w.now) {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		all.Wait()
	})
}

func TestTeamsAndMembers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		if u, err := w.UserByEmail(ctx, "OWNER@example.com"); err != nil || u.ID != w.owner || u.Password.Reveal() != "hash" {
			t.Errorf("%+v, %v", u, err)
		}
		wants(t, "a second user with the email", w.AddUser(ctx, store.User{ID: "usr-x", Email: "owner@example.COM", CreatedAt: w.now}), fault.Exists)
		wants(t, "a second team with the slug", w.AddTeam(ctx, store.Team{ID: "team-x", Slug: "one", CreatedAt: w.now}, w.owner), fault.Exists)

		other := w.user(t, "other@example.com")
		const owner, admin = store.RoleOwner, store.RoleAdmin
		wants(t, "no such user", second(w.AddMember(ctx, w.team, "usr-none", store.RoleMember, owner, w.now)), fault.NotFound)
		wants(t, "no such team", second(w.AddMember(ctx, "team-none", other, store.RoleMember, owner, w.now)), fault.NotFound)
		wants(t, "no such member", w.SetRole(ctx, w.team, other, store.RoleMember, owner), fault.NotFound)
		wants(t, "the last owner", w.SetRole(ctx, w.team, w.owner, admin, owner), fault.Precondition)
		wants(t, "the last owner is removed", w.RemoveMember(ctx, w.team, w.owner, owner), fault.Precondition)
		wants(t, "an admin adds an owner", second(w.AddMember(ctx, w.team, other, owner, admin, w.now)), fault.Permission)
		check(t, second(w.AddMember(ctx, w.team, other, store.RoleMember, admin, w.now)))
		wants(t, "a second time", second(w.AddMember(ctx, w.team, other, store.RoleMember, admin, w.now)), fault.Exists)
		wants(t, "an admin promotes to owner", w.SetRole(ctx, w.team, other, owner, admin), fault.Permission)
		check(t, w.SetRole(ctx, w.team, other, owner, owner))
		wants(t, "an admin demotes an owner", w.SetRole(ctx, w.team, w.owner, store.RoleViewer, admin), fault.Permission)
		wants(t, "an admin removes an owner", w.RemoveMember(ctx, w.team, w.owner, admin), fault.Permission)
		check(t, w.SetRole(ctx, w.team, w.owner, store.RoleViewer, owner))
		all, err := w.Members(ctx, w.team)
		if err != nil || len(all) != 2 || all[0].Email != "other@example.com" || all[0].Role != store.RoleOwner || all[1].Role != store.RoleViewer {
			t.Errorf("%+v, %v", all, err)
		}
		if mine, err := w.Memberships(ctx, other); err != nil || len(mine) != 1 || mine[0].TeamID != w.team {
			t.Errorf("%+v, %v", mine, err)
		}
		check(t, w.RemoveMember(ctx, w.team, w.owner, admin))
		_, err = w.Member(ctx, w.team, w.owner)
		wants(t, "a removed member", err, fault.NotFound)
	})
}

func TestKeysAndSessions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		k := store.Key{ID: "key-1", TeamID: w.team, Name: "CI", Prefix: "wrn_123456", Hash: "h1", Scopes: []string{"read", "write"}, CreatedBy: w.owner, CreatedAt: w.now, ExpiresAt: w.now.Add(time.Hour)}
		check(t, w.AddKey(ctx, k))
		if got, _, err := w.KeyByHash(ctx, "h1"); err != nil || !slices.Equal(got.Scopes, k.Scopes) || !got.ExpiresAt.Equal(k.ExpiresAt) || !got.LastUsedAt.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		check(t, w.UseKey(ctx, k.ID, w.now.Add(time.Minute)))
		check(t, w.UseKey(ctx, k.ID, w.now)) // a slower request
		if all, err := w.Keys(ctx, w.team); err != nil || len(all) != 1 || !all[0].LastUsedAt.Equal(w.now.Add(time.Minute)) {
			t.Errorf("%+v, %v", all, err)
		}
		wants(t, "the key of another team", w.RemoveKey(ctx, w.addTeam(t, "two", w.owner), k.ID), fault.NotFound)
		check(t, w.RemoveKey(ctx, w.team, k.ID))
		_, _, err := w.KeyByHash(ctx, "h1")
		wants(t, "a removed key", err, fault.NotFound)

		v := store.Session{Hash: "s1", UserID: w.owner, TeamID: w.team, CreatedAt: w.now, ExpiresAt: w.now.Add(time.Hour)}
		check(t, w.AddSession(ctx, v))
		if got, err := w.Session(ctx, "s1", w.now); err != nil || got != v {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = w.Session(ctx, "s1", v.ExpiresAt)
		wants(t, "an expired session", err, fault.NotFound)
		check(t, w.SetPassword(ctx, w.owner, secret.New("new")))
		_, err = w.Session(ctx, "s1", w.now)
		wants(t, "a session from before the new password", err, fault.NotFound)
	})
}

func TestSandboxes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		n := w.newSandbox()
		b, found, err := w.AddSandbox(ctx, n)
		if err != nil || found || b.ID != n.ID {
			t.Fatalf("%+v, %v, %v", b, found, err)
		}
		got, err := w.Sandbox(ctx, w.team, n.ID)
		if err != nil || got.Metadata["a"] != "b" || got.Made || got.Status != store.StatusPending || !got.CreatedAt.Equal(w.now) || !got.StartedAt.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = w.Sandbox(ctx, w.addTeam(t, "two", w.owner), n.ID)
		wants(t, "the sandbox of another team", err, fault.NotFound)

		check(t, w.Report(ctx, n.ID, "running", w.now, w.now, w.now))
		paused, err := w.SetWanted(ctx, w.team, n.ID, store.WantPaused, w.now.Add(time.Second))
		if err != nil || paused.Wanted != store.WantPaused || !paused.Made || paused.Status != "running" {
			t.Errorf("%+v, %v", paused, err)
		}
		if u, err := w.Used(ctx, w.team, w.now); err != nil || u != (store.Used{Sandboxes: 1, DiskMB: 1024}) {
			t.Errorf("%+v, %v", u, err)
		}
		_, err = w.SetWanted(ctx, w.team, n.ID, store.WantDeleted, w.now)
		check(t, err)
		_, err = w.SetWanted(ctx, w.team, n.ID, store.WantRunning, w.now)
		wants(t, "a deleted sandbox", err, fault.NotFound)
		if all, err := w.SandboxesOf(ctx, w.host); err != nil || len(all) != 1 || all[0].Wanted != store.WantDeleted {
			t.Errorf("%+v, %v", all, err)
		}
		if all, err := w.Sandboxes(ctx, w.team); err != nil || len(all) != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		check(t, w.Forget(ctx, n.ID))
		check(t, w.Forget(ctx, n.ID))
		check(t, w.Report(ctx, n.ID, "running", w.now, w.now, w.now))
	})
}

// TestOrderOfSandboxes checks that sandboxes are sorted by time, the latest first, and then by ID.
func TestOrderOfSandboxes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		now := time.Now().UTC().Truncate(time.Microsecond)
		for i, id := range []string{"cl-c", "cl-a", "cl-b", "cl-d"} {
			n := w.newSandbox()
			n.ID, n.CreatedAt = id, now.Add(time.Duration(i/3)*time.Second)
			_, _, err := w.AddSandbox(t.Context(), n)
			check(t, err)
		}
		all, err := w.Sandboxes(t.Context(), w.team)
		check(t, err)
		var ids []string
		for _, b := range all {
			ids = append(ids, b.ID)
		}
		if want := []string{"cl-d", "cl-a", "cl-b", "cl-c"}; !slices.Equal(ids, want) {
			t.Errorf("got %v, want %v", ids, want)
		}
	})
}

// TestQuotasHoldUnderRaces concurrently creates more sandboxes than each quota permits.
func TestQuotasHoldUnderRaces(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, q := range map[string]store.Quota{"sandboxes": {Sandboxes: 3}, "processors": {VCPUs: 7}, "memory": {MemoryMB: 3*512 + 511}, "disk": {DiskMB: 3 * 1024}} {
			t.Run(name, func(t *testing.T) {
				w := *w
				w.team = w.addTeam(t, name, w.owner)
				check(t, w.SetQuota(t.Context(), w.team, q))
				var all sync.WaitGroup
				var mu sync.Mutex
				var made []string
				for range 10 {
					all.Go(func() {
						n := w.newSandbox()
						switch _, _, err := w.AddSandbox(context.WithoutCancel(t.Context()), n); fault.KindOf(err) {
						case "":
							mu.Lock()
							made = append(made, n.ID)
							mu.Unlock()
						case fault.Exhausted:
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				if len(made) != 3 {
					t.Fatalf("got %d sandboxes, want 3", len(made))
				}
				if name == "processors" || name == "memory" {
					_, err := w.SetWanted(t.Context(), w.team, made[0], store.WantPaused, w.now)
					check(t, err)
					_, _, err = w.AddSandbox(t.Context(), w.newSandbox())
					check(t, err)
					_, err = w.SetWanted(t.Context(), w.team, made[0], store.WantRunning, w.now)
					wants(t, "a resume beyond the quota", err, fault.Exhausted)
				}
			})
		}
	})
}

// TestKeyCreatesOneSandbox sends the same request many times concurrently.
func TestKeyCreatesOneSandbox(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		var all sync.WaitGroup
		ids := make([]string, 10)
		for i := range ids {
			all.Go(func() {
				n := w.newSandbox()
				n.Key, n.Request = "k", "r"
				b, _, err := w.AddSandbox(context.WithoutCancel(ctx), n)
				if err != nil {
					t.Error(err)
				}
				ids[i] = b.ID
			})
		}
		all.Wait()
		if slices.Sort(ids); ids[0] == "" || ids[0] != ids[len(ids)-1] {
			t.Errorf("%q", ids)
		}
		n := w.newSandbox()
		n.Key, n.Request = "k", "another"
		_, _, err := w.AddSandbox(ctx, n)
		wants(t, "another request with the key", err, fault.Precondition)
		check(t, w.Report(ctx, ids[0], "running", w.now, w.now, w.now))
		_, err = w.SetWanted(ctx, w.team, ids[0], store.WantDeleted, w.now)
		check(t, err)
		n.Request = "r"
		_, _, err = w.AddSandbox(ctx, n)
		wants(t, "the sandbox was deleted", err, fault.Precondition)
	})
}

func TestAudit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		for i := range 5 {
			check(t, w.AddAudit(ctx, store.Audit{
				TeamID: w.team, ActorType: store.ActorUser, ActorID: w.owner, ActorName: "Owner", Action: []string{"create", "delete"}[i%2], Resource: "sandbox",
				Subject: fmt.Sprint(i), Name: "name " + fmt.Sprint(i), Address: "192.0.2.1", Result: store.AuditOK, At: w.now.Add(time.Duration(i/2) * time.Millisecond),
			}))
		}
		subjects := func(q store.AuditQuery) string {
			t.Helper()
			q.TeamID = w.team
			all, err := w.Audits(ctx, q)
			check(t, err)
			var s []string
			for _, a := range all {
				s = append(s, a.Subject)
				if a.Name != "name "+a.Subject {
					t.Errorf("%+v", a)
				}
			}
			return strings.Join(s, "")
		}
		whole := subjects(store.AuditQuery{Limit: 10})
		if len(whole) != 5 || whole[0] != '4' {
			t.Fatal(whole)
		}
		var paged string
		for q := (store.AuditQuery{TeamID: w.team, Limit: 2}); ; {
			all, err := w.Audits(ctx, q)
			check(t, err)
			if len(all) == 0 {
				break
			}
			for _, a := range all {
				paged += a.Subject
			}
			q.Before, q.BeforeID = all[len(all)-1].At, all[len(all)-1].ID
		}
		if paged != whole {
			t.Errorf("got %s, want %s", paged, whole)
		}
		if got := subjects(store.AuditQuery{Limit: 10, Actions: []string{"delete", "pause"}, Resources: []string{"sandbox"}, Without: []string{"member"}}); strings.Trim(got, "13") != "" || len(got) != 2 {
			t.Error(got)
		}
	})
}

// TestAuditExpires adds an entry. More than a year later it adds so many entries that the log is
// trimmed.
func TestAuditExpires(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		add := func(at time.Time) {
			check(t, w.AddAudit(t.Context(), store.Audit{TeamID: w.team, ActorType: store.ActorUser, ActorID: w.owner, Action: "create", Resource: "sandbox", Result: store.AuditOK, At: at}))
		}
		year := 365 * 24 * time.Hour
		add(w.now)
		add(w.now.Add(2 * time.Hour))
		for range 100 {
			add(w.now.Add(year + time.Hour))
		}
		all, err := w.Audits(t.Context(), store.AuditQuery{TeamID: w.team, Limit: 200})
		check(t, err)
		if len(all) != 101 || !all[100].At.Equal(w.now.Add(2*time.Hour)) {
			t.Errorf("got %d entries, the oldest of %v", len(all), all[len(all)-1].At)
		}
	})
}

// TestKeysExpire repeats a creation with the same key within a day and later.
func TestKeysExpire(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		add := func(after time.Duration, key string) (id string, found bool) {
			n := w.newSandbox()
			n.CreatedAt, n.Key, n.Request = w.now.Add(after), key, "r"
			got, found, err := w.AddSandbox(t.Context(), n)
			check(t, err)
			return got.ID, found
		}
		first, _ := add(0, "k")
		if id, found := add(24*time.Hour-time.Microsecond, "k"); !found || id != first {
			t.Errorf("within a day: got %s, %v", id, found)
		}
		if id, found := add(24*time.Hour, "k"); found || id == first {
			t.Errorf("after a day: got %s, %v", id, found)
		}
	})
}

// TestHostileText searches records with names that databases do not accept as text.
func TestHostileText(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, id := range []string{"\x00", "\xff"} {
			if _, err := w.Sandbox(t.Context(), w.team, id); fault.KindOf(err) != fault.NotFound && fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q: got %v", id, err)
			}
		}
	})
}
