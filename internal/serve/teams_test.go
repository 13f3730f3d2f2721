package serve

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

// TestTeamsAPI follows a team from its creation to its removal.
func TestTeamsAPI(t *testing.T) {
	w := newWorld(t)
	w.tokens["owner"] = w.token(w.owner, w.team, time.Hour)
	var made MyTeam
	if got := w.call("owner", "POST", "/v1/teams", Name{" Research "}, &made); got != 201 || made.Name != "Research" || made.Role != "owner" || !strings.HasPrefix(made.Slug, "research-") {
		t.Fatalf("got %d: %+v", got, made)
	}
	path := "/v1/teams/" + made.ID
	if got := w.call("owner", "GET", path, nil, nil); got != 403 {
		t.Errorf("before the switch: got %d", got)
	}
	var login Login
	if got := w.call("owner", "POST", "/v1/auth/switch-team", map[string]string{"team_id": made.ID}, &login); got != 200 || login.TeamID != made.ID || login.UserID != w.owner {
		t.Fatalf("got %d: %+v", got, login)
	}
	if got := w.call("owner", "GET", path, nil, nil); got != 401 {
		t.Errorf("the old session: got %d", got)
	}
	w.tokens["owner"] = login.Token
	if got := w.call("owner", "PATCH", path, Name{"Development"}, nil); got != 204 {
		t.Errorf("got %d", got)
	}

	var added AddedMember
	if got := w.call("owner", "POST", path+"/members", map[string]string{"email": "new@example.com"}, &added); got != 201 || added.Role != "member" || !strings.HasPrefix(added.Link, w.url+"/login/") {
		t.Fatalf("got %d: %+v", got, added)
	}
	var again AddedMember
	if got := w.call("owner", "POST", path+"/members", map[string]string{"email": "foreign@example.com", "role": "viewer"}, &again); got != 201 || again.Role != "viewer" || again.Link == "" {
		t.Errorf("got %d: %+v", got, again)
	}
	if got := w.call("owner", "POST", path+"/members", map[string]string{"email": "new@example.com"}, nil); got != 409 {
		t.Errorf("a second time: got %d", got)
	}
	var link LoginLink
	if got := w.call("owner", "POST", path+"/members/"+added.UserID+"/login-link", nil, &link); got != 201 || link.URL == added.Link {
		t.Errorf("got %d: %+v", got, link)
	}
	b := w.browser()
	if got, text := b.send("POST", "/v1/auth/link", `{"token": "`+link.URL[strings.LastIndex(link.URL, "/")+1:]+`"}`); got != 200 {
		t.Errorf("got %d: %s", got, text)
	}
	if got := w.call("owner", "PATCH", path+"/members/"+added.UserID, map[string]string{"role": "admin"}, nil); got != 204 {
		t.Errorf("got %d", got)
	}
	if got, text := b.send("GET", path, ""); got != 200 || !strings.Contains(text, `"Development"`) || strings.Count(text, `"user_id"`) != 3 || !strings.Contains(text, `"role":"admin"`) {
		t.Errorf("got %d: %s", got, text)
	}
	var found []FoundUser
	if got := w.call("owner", "GET", "/v1/users/search?email=new@", nil, &found); got != 200 || len(found) != 1 || found[0] != (FoundUser{added.UserID, "new@example.com"}) {
		t.Errorf("got %d: %+v", got, found)
	}
	for begin, want := range map[string]int{"new": 400, "n@": 400, "%25%25@": 200, "_e_@": 200} {
		var found json.RawMessage
		if got := w.call("owner", "GET", "/v1/users/search?email="+begin, nil, &found); got != want || want == 200 && string(found) != "[]" {
			t.Errorf("%q: got %d: %s", begin, got, found)
		}
	}
	if got := w.call("owner", "DELETE", path+"/members/"+added.UserID, nil, nil); got != 204 {
		t.Errorf("got %d", got)
	}
	if got, text := b.send("GET", path, ""); got != 401 {
		t.Errorf("the session of a removed member: got %d: %s", got, text)
	}
	var e Error
	if got := w.call("owner", "DELETE", "/v1/me", map[string]string{"confirmation": "own@example.com"}, &e); got != 409 || e.Detail.Code != "owns_team_with_members" && e.Detail.Code != "invalid_state" {
		t.Errorf("got %d: %+v", got, e)
	}
	if got := w.call("owner", "POST", path+"/leave", nil, nil); got != 409 {
		t.Errorf("the last owner leaves: got %d", got)
	}
	var teams []MyTeam
	if got := w.call("owner", "GET", "/v1/teams", nil, &teams); got != 200 || len(teams) != 2 || teams[1].Name != "Development" {
		t.Errorf("got %d: %+v", got, teams)
	}
	if got := w.call("owner", "DELETE", path, nil, nil); got != 204 {
		t.Errorf("got %d", got)
	}
	if got := w.call("owner", "GET", "/v1/me", nil, nil); got != 401 {
		t.Errorf("the session for a deleted team: got %d", got)
	}
}

// TestQuotasAPI sets a quota as an operator, and looks at it as a viewer and with a key.
func TestQuotasAPI(t *testing.T) {
	w := newWorld(t)
	w.tokens["owner"] = w.token(w.owner, w.team, time.Hour)
	w.member("viewer", w.team, store.RoleViewer)
	w.create()
	var q Quota
	if got := w.call("owner", "PUT", "/v1/teams/"+w.team+"/quotas", Limits{Sandboxes: 1, VCPUs: 8}, &q); got != 200 || q.Limits != (Limits{Sandboxes: 1, VCPUs: 8}) {
		t.Errorf("got %d: %+v", got, q)
	}
	for _, name := range []string{"viewer", "read"} {
		if got := w.call(name, "GET", "/v1/teams/"+w.team+"/quotas", nil, &q); got != 200 || q.Used != (Limits{Sandboxes: 1, VCPUs: 1, MemoryMB: 512, DiskMB: 5120}) {
			t.Errorf("%s: got %d: %+v", name, got, q)
		}
	}
	var e Error
	if got := w.call("full", "POST", "/v1/sandboxes", NewSandbox{}, &e); got != 429 || e.Detail.Code != "quota_exceeded" {
		t.Errorf("got %d: %+v", got, e)
	}
	if got := w.call("owner", "PUT", "/v1/teams/"+w.foreign+"/quotas", Limits{}, nil); got != 200 {
		t.Errorf("another team: got %d", got)
	}
	if got := w.call("owner", "PUT", "/v1/teams/none/quotas", Limits{}, nil); got != 404 {
		t.Errorf("no team: got %d", got)
	}
	var all []TeamQuota
	if got := w.call("owner", "GET", "/v1/admin/teams", nil, &all); got != 200 || len(all) != 2 || all[0].Used.Sandboxes != 1 || all[0].ID != w.team {
		t.Errorf("got %d: %+v", got, all)
	}
}

// TestAuditAPI reads the audit log in pages, as an admin and as a viewer.
func TestAuditAPI(t *testing.T) {
	w := newWorld(t)
	w.member("admin", w.team, store.RoleAdmin)
	w.member("viewer", w.team, store.RoleViewer)
	b := w.create()
	w.call("full", "POST", "/v1/sandboxes/"+b.ID+"/pause", nil, nil)
	w.call("full", "POST", "/v1/sandboxes/"+b.ID+"/pause", nil, nil)
	w.call("admin", "PATCH", "/v1/me", Name{"Ann"}, nil)
	read := func(name, query string) (got []string) {
		t.Helper()
		for next := ""; ; {
			var page AuditPage
			if status := w.call(name, "GET", "/v1/audit-logs?limit=2&"+query+next, nil, &page); status != 200 {
				t.Fatalf("got %d", status)
			}
			for _, e := range page.Items {
				if e.ActorType == "" || e.ActorID == "" {
					t.Errorf("%+v", e)
				}
				if e.ResourceType != "api_key" {
					got = append(got, e.ResourceType+" "+e.Action+" "+e.Scope+" "+e.Status+" "+e.Metadata["error"])
				}
			}
			if page.NextBefore == nil {
				return got
			}
			next = "&before=" + url.QueryEscape(page.NextBefore.Format(time.RFC3339Nano)) + "&before_id=" + page.NextBeforeID
		}
	}
	sandbox := "sandbox pause team error failed_precondition,sandbox pause team success ,sandbox create team success "
	if got := strings.Join(read("admin", ""), ","); got != "user update admin success ,"+sandbox {
		t.Errorf("got %q", got)
	}
	if got := strings.Join(read("viewer", ""), ","); got != sandbox {
		t.Errorf("got %q", got)
	}
	if got := read("admin", "resource_type=sandbox&resource_type=user&action=create&action=update"); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestHostsAPI(t *testing.T) {
	w := newWorld(t)
	w.member("viewer", w.team, store.RoleViewer)
	w.check(w.control.Reconcile(t.Context()))
	var all []Host
	if got := w.call("viewer", "GET", "/v1/hosts", nil, &all); got != 200 || len(all) != 1 || all[0].Status != "online" || all[0].Name != "here" {
		t.Fatalf("got %d: %+v", got, all)
	}
	w.host.Break = func(string, bool) error { return http.ErrServerClosed }
	w.control.Reconcile(t.Context())
	var one Host
	if got := w.call("viewer", "GET", "/v1/hosts/"+all[0].ID, nil, &one); got != 200 || one.Status != "unreachable" || one.LastHeartbeatAt.Before(all[0].CreatedAt) {
		t.Errorf("got %d: %+v", got, one)
	}
	if got := w.call("viewer", "GET", "/v1/hosts/none", nil, nil); got != 404 {
		t.Errorf("got %d", got)
	}
}

// TestPassword sets a password, changes it, and checks that no session survives.
func TestPassword(t *testing.T) {
	w := newWorld(t)
	w.member("a", w.team, store.RoleViewer)
	w.member("a", w.team, store.RoleViewer)
	for name, in := range map[string]map[string]string{
		"short": {"new_password": "1234567"}, "not equal": {"new_password": "correct horse", "confirm_password": "wrong horse"},
	} {
		if got := w.call("a", "POST", "/v1/me/password", in, nil); got != 400 {
			t.Errorf("%s: got %d", name, got)
		}
	}
	var me Me
	w.call("a", "GET", "/v1/me", nil, &me)
	if got := w.call("a", "POST", "/v1/me/password", map[string]string{"new_password": "correct horse", "confirm_password": "correct horse"}, nil); got != 204 || me.HasPassword {
		t.Fatalf("got %d: %+v", got, me)
	}
	if got := w.call("a", "GET", "/v1/me", nil, nil); got != 401 {
		t.Errorf("got %d", got)
	}
	b := w.browser()
	credentials, _ := json.Marshal(map[string]string{"email": me.Email, "password": "correct horse"})
	if got, text := b.send("POST", "/v1/auth/login", string(credentials)); got != 200 {
		t.Fatalf("got %d: %s", got, text)
	}
	if got, text := b.send("POST", "/v1/me/password", `{"current_password": "wrong", "new_password": "another horse"}`); got != 401 || !strings.Contains(text, `"wrong_password"`) {
		t.Errorf("got %d: %s", got, text)
	}
	if got, text := b.send("POST", "/v1/me/password", `{"current_password": "correct horse", "new_password": "another horse"}`); got != 204 {
		t.Errorf("got %d: %s", got, text)
	}
	at, _ := url.Parse(w.url)
	if c := b.jar.Cookies(at); len(c) != 0 {
		t.Errorf("the cookies are %v", c)
	}
}

// TestSessionFixation checks that a login never continues a session that the browser already has.
func TestSessionFixation(t *testing.T) {
	w := newWorld(t)
	at, _ := url.Parse(w.url)
	known := w.token(w.user("attacker@example.com"), w.team, time.Hour)
	for name, token := range map[string]string{"unknown": "chosen-by-the-attacker", "of another user": known} {
		b := w.browser()
		b.jar.SetCookies(at, []*http.Cookie{{Name: cookieName, Value: token}})
		id := w.member("victim", w.team, store.RoleViewer)
		w.check(w.store.AddLoginLink(t.Context(), digest("link "+name), id, time.Now(), time.Now().Add(time.Hour)))
		if got, text := b.send("POST", "/v1/auth/link", `{"token": "link `+name+`"}`); got != 200 {
			t.Fatalf("%s: got %d: %s", name, got, text)
		}
		c := b.jar.Cookies(at)
		if len(c) != 1 || c[0].Value == token || len(c[0].Value) < 20 {
			t.Errorf("%s: the cookies are %v", name, c)
		}
		if got := w.call("none", "GET", "/v1/me", nil, nil, "Authorization", "Bearer "+token); got != 401 {
			t.Errorf("%s: got %d", name, got)
		}
	}
}
