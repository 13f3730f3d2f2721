package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro/internal/control/store"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// user adds a user, and returns its ID.
func (w *world) user(email string) string {
	w.t.Helper()
	u := store.User{ID: store.NewID(store.UserPrefix), Email: email, Name: "User", CreatedAt: time.Now()}
	w.check(w.store.AddUser(w.t.Context(), u))
	return u.ID
}

// token adds a session, and returns its token.
func (w *world) token(user, team string, valid time.Duration) string {
	w.t.Helper()
	token, now := rand.Text(), time.Now()
	w.check(w.store.AddSession(w.t.Context(), store.Session{Hash: digest(token), UserID: user, TeamID: team, CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(valid)}))
	return token
}

// member adds a new user with a role to a team and returns the user's ID. w.tokens[name] becomes
// the token of a session of this user.
func (w *world) member(name, team string, role store.Role) string {
	w.t.Helper()
	id := w.user(strings.ToLower(rand.Text()) + "@example.com")
	_, err := w.store.AddMember(w.t.Context(), team, id, role, store.RoleOwner, time.Now())
	w.check(err)
	w.tokens[name] = w.token(id, team, time.Hour)
	return id
}

// sender is a kind of sender of requests.
type sender struct {
	name    string
	team    *string    // nil: the server refuses the sender, with the status in refused
	role    store.Role // role of the sender in the team
	key     bool       // the sender is an API key
	refused int
}

func (w *world) senders() []sender {
	all := []sender{
		{name: "none", refused: 401}, {name: "unknown", refused: 401}, {name: "revoked", refused: 401}, {name: "expired", refused: 401},
		{name: "no session", refused: 401}, {name: "an expired session", refused: 401}, {name: "a session that was logged out", refused: 401},
		{name: "a removed member", refused: 401}, {name: "a session for a team of others", refused: 401}, {name: "a disabled user", refused: 403},
		{name: "full", team: &w.team, role: store.RoleMember, key: true}, {name: "read", team: &w.team, role: store.RoleViewer, key: true},
		{name: "foreign", team: &w.foreign, role: store.RoleMember, key: true}, {name: "a foreign owner", team: &w.foreign, role: store.RoleOwner},
	}
	for _, r := range store.Roles {
		all = append(all, sender{name: string(r), team: &w.team, role: r})
	}
	ctx := w.t.Context()
	w.tokens["no session"] = rand.Text()
	w.tokens["an expired session"] = w.token(w.owner, w.team, -time.Minute)
	w.tokens["a session that was logged out"] = w.token(w.owner, w.team, time.Hour)
	w.check(w.store.RemoveSession(ctx, digest(w.tokens["a session that was logged out"])))
	w.check(w.store.RemoveMember(ctx, w.team, w.member("a removed member", w.team, store.RoleAdmin), store.RoleOwner))
	w.tokens["a session for a team of others"] = w.token(w.owner, w.foreign, time.Hour)
	w.check(w.store.SetDisabled(ctx, w.member("a disabled user", w.team, store.RoleAdmin), true))
	return all
}

// open are the paths that need no login.
var open = []string{"/health", "/v1/auth/login", "/v1/auth/link", "/v1/auth/methods"}

// operators are the operations for operators of the server, who are the owners of the first team.
var operators = []string{"teams-create", "quotas-set", "admin-teams"}

// want returns the status of the server's refusal for a sender, or 0 if the sender is permitted.
func (w *world) want(s sender, path string, o *huma.Operation) int {
	role, _ := o.Metadata[need].(store.Role)
	switch {
	case s.team == nil:
		return s.refused
	case s.key && o.Metadata[needsUser] != nil, !s.role.Includes(role):
		return 403
	case slices.Contains(operators, o.OperationID):
		if s.team != &w.team || s.role != store.RoleOwner {
			return 403
		}
	case s.team == &w.team, !strings.Contains(path, "{id}"), strings.HasPrefix(path, "/v1/hosts/"):
	case strings.HasPrefix(path, "/v1/teams/"):
		return 403
	default:
		return 404
	}
	return 0
}

// TestEveryOperationIsGuarded sends each operation of the document from each kind of sender. The
// test gets the operations from the document, so that it includes new operations automatically. If
// a sender is permitted, the request names things that do not exist, because the fake host has few
// operations.
func TestEveryOperationIsGuarded(t *testing.T) {
	w := newWorld(t)
	w.server.requests = newLimiter(1e6, 1e6, time.Now)
	senders := w.senders()
	b, host := w.create(), w.hostID()
	tried, permitted := 0, 0
	for pattern, item := range w.server.OpenAPI().Paths {
		for method, o := range methodsOf(item) {
			if len(o.Security) == 0 {
				if !slices.Contains(open, pattern) {
					t.Errorf("%s %s is open to everybody", method, pattern)
				}
				continue
			}
			if role, ok := o.Metadata[need].(store.Role); !ok || !slices.Contains(store.Roles, role) {
				t.Errorf("%s %s names no role", method, pattern)
			}
			for _, s := range senders {
				want := w.want(s, pattern, o)
				id := b.ID
				switch {
				case strings.HasPrefix(pattern, "/v1/teams/"):
					id = w.team
				case strings.HasPrefix(pattern, "/v1/hosts/"):
					id = host
				case want == 0:
					id = "none"
				}
				if s.team != nil && !s.key {
					w.member(s.name, *s.team, s.role) // the operation may remove the last one, or end its session
				}
				got := w.send(o, s.name, method, strings.NewReplacer("{id}", id).Replace(pattern))
				tried++
				if want != 0 && got != want {
					t.Errorf("%s %s by %s: got %d, want %d", method, pattern, s.name, got, want)
				}
				if want == 0 {
					if permitted++; got == 401 || got == 403 || got >= 500 {
						t.Errorf("%s %s by %s: got %d", method, pattern, s.name, got)
					}
				}
				if got := w.host.Statuses()[b.ID]; got != "running" {
					t.Fatalf("%s %s by %s had an effect: %q", method, pattern, s.name, got)
				}
			}
		}
	}
	if tried < 800 || permitted < 200 {
		t.Errorf("only %d requests were tried, and %d permitted", tried, permitted)
	}
}

func (w *world) hostID() string {
	w.t.Helper()
	all, err := w.control.HostStates(w.t.Context())
	w.check(err)
	return all[0].ID
}

// send sends a request that is valid apart from its sender.
func (w *world) send(o *huma.Operation, name, method, path string) int {
	w.t.Helper()
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + "1" + after
	}
	query := []string{}
	for _, p := range o.Parameters {
		if p.In == "query" && p.Required {
			query = append(query, p.Name+"="+text(p.Name, p.Schema))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	if o.RequestBody != nil && o.RequestBody.Content["multipart/form-data"] != nil {
		req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(form("/a", "a")))
		w.check(err)
		req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		w.sign(req, name)
		r, err := http.DefaultClient.Do(req)
		w.check(err)
		r.Body.Close()
		return r.StatusCode
	}
	var in any
	if o.RequestBody != nil && o.RequestBody.Content["application/json"] != nil {
		in = w.example("", o.RequestBody.Content["application/json"].Schema)
	}
	return w.call(name, method, path, in, nil)
}

// example returns a value with the required properties of a schema.
func (w *world) example(name string, s *huma.Schema) any {
	if s.Ref != "" {
		s = w.server.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	switch s.Type {
	case huma.TypeObject:
		all := map[string]any{}
		for _, name := range s.Required {
			all[name] = w.example(name, s.Properties[name])
		}
		return all
	case huma.TypeArray:
		all := []any{}
		for s.MinItems != nil && len(all) < *s.MinItems {
			all = append(all, w.example(name, s.Items))
		}
		return all
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	case huma.TypeBoolean:
		return false
	}
	return text(name, s)
}

func text(name string, s *huma.Schema) string {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0].(string)
	case name == "email":
		return strings.ToLower(rand.Text()) + "@example.com"
	case name == "path" || name == "source" || name == "destination":
		return "/a"
	case s.MinLength != nil:
		return strings.Repeat("a", max(*s.MinLength, 1))
	}
	return "a"
}
