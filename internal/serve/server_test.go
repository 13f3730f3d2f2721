package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/hosttest"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/control/store/storetest"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/secret"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// world is a server with a fake host and two teams, each with keys of all scopes.
type world struct {
	t       testing.TB
	server  *Server
	url     string
	host    *hosttest.Host
	control *control.Control
	store   *store.Store
	team    string
	foreign string            // the other team
	owner   string            // a user
	keys    map[string]string // keys by name: full, read, foreign, expired, revoked, unknown, none
	tokens  map[string]string // tokens of sessions, by name
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, filepath.Join(t.TempDir(), "control.db"))
}

// newWorldOn returns a world with the database at an address.
func newWorldOn(t testing.TB, database string) *world {
	t.Helper()
	w := &world{t: t, host: hosttest.New(), keys: map[string]string{}, tokens: map[string]string{}}
	w.store = storetest.Open(t, database)
	log := slog.New(slog.DiscardHandler)
	c, err := control.New(t.Context(), control.Options{Store: w.store, Hosts: []control.Host{{Key: "key", Name: "here", Client: w.host}}, Log: log, HashMemory: 64})
	w.check(err)
	w.control = c
	for _, name := range []string{"own", "foreign"} {
		u := store.User{ID: store.NewID(store.UserPrefix), Email: name + "@example.com", CreatedAt: time.Now()}
		w.check(w.store.AddUser(t.Context(), u))
		team := store.Team{ID: store.NewID(store.TeamPrefix), Slug: name, CreatedAt: time.Now()}
		w.check(w.store.AddTeam(t.Context(), team, u.ID))
		by := control.Actor{Type: store.ActorUser, ID: u.ID, TeamID: team.ID}
		key := func(scopes ...string) (store.Key, string) {
			k, text, err := c.NewKey(t.Context(), by, "test", scopes, time.Time{})
			w.check(err)
			return k, text.Reveal()
		}
		if name == "foreign" {
			_, w.keys["foreign"] = key()
			w.foreign = team.ID
			continue
		}
		w.team, w.owner = team.ID, u.ID
		_, w.keys["full"] = key()
		_, w.keys["read"] = key("read")
		k, text := key()
		w.keys["revoked"] = text
		w.check(w.store.RemoveKey(t.Context(), team.ID, k.ID))
		w.keys["unknown"], w.keys["none"] = "wrn_00000000000000000000000000000000", ""
	}
	w.keys["expired"] = "wrn_" + strings.Repeat("e", 32)
	w.check(w.store.AddKey(t.Context(), store.Key{
		ID: "key-expired", TeamID: w.team, Hash: digest(w.keys["expired"]), CreatedBy: w.owner, CreatedAt: time.Now(), ExpiresAt: time.Now(),
	}))
	w.server = New(Options{Control: c, Log: log})
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// call sends a request with the key or token of that name (w.keys, w.tokens). It checks the answer
// against the OpenAPI document.
func (w *world) call(key, method, path string, in any, out any, headers ...string) int {
	w.t.Helper()
	var content []byte
	if in != nil {
		content, _ = json.Marshal(in)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(content))
	w.check(err)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	w.sign(req, key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(req)
	w.check(err)
	defer r.Body.Close()
	var answer bytes.Buffer
	if r.Header.Get("Content-Type") != "text/event-stream" { // which has no end
		answer.ReadFrom(r.Body)
	}
	w.conforms(method, path, r.StatusCode, answer.Bytes())
	if out != nil && answer.Len() > 0 {
		if err := json.Unmarshal(answer.Bytes(), out); err != nil {
			w.t.Errorf("%s %s: %v: %q", method, path, err, answer.Bytes())
		}
	}
	return r.StatusCode
}

// sign adds the key or the token of a name to a request.
func (w *world) sign(r *http.Request, name string) {
	if text := w.keys[name]; text != "" {
		r.Header.Set(keyHeader, text)
	}
	if token := w.tokens[name]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// find returns the operation of a request.
func (w *world) find(method, path string) *huma.Operation {
	path = strings.Split(path, "?")[0]
	if item := w.server.OpenAPI().Paths[path]; item != nil && methodsOf(item)[method] != nil {
		return methodsOf(item)[method]
	}
	parts := strings.Split(path, "/")
	for pattern, item := range w.server.OpenAPI().Paths {
		names := strings.Split(pattern, "/")
		if len(names) != len(parts) {
			continue
		}
		if slices.EqualFunc(names, parts, func(name, part string) bool { return name == part || strings.HasPrefix(name, "{") }) {
			return methodsOf(item)[method]
		}
	}
	return nil
}

func methodsOf(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{}
	for method, o := range map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	} {
		if o != nil {
			all[method] = o
		}
	}
	return all
}

// conforms checks that an answer conforms to the OpenAPI document.
func (w *world) conforms(method, path string, status int, content []byte) {
	w.t.Helper()
	o := w.find(method, path)
	if o == nil {
		w.t.Errorf("%s %s is not in the document", method, path)
		return
	}
	described := o.Responses[fmt.Sprint(status)]
	if described == nil {
		w.t.Errorf("%s %s: the status %d is not in the document: %q", method, path, status, content)
		return
	}
	media := described.Content["application/json"]
	if media == nil || media.Schema == nil {
		if len(content) > 0 && described.Content["application/octet-stream"] == nil {
			w.t.Errorf("%s %s: the status %d has no body in the document: %q", method, path, status, content)
		}
		return
	}
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		w.t.Errorf("%s %s: %v: %q", method, path, err, content)
		return
	}
	result := &huma.ValidateResult{}
	huma.Validate(w.server.OpenAPI().Components.Schemas, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	if len(result.Errors) > 0 {
		w.t.Errorf("%s %s: %q: %v", method, path, content, result.Errors)
	}
}

func (w *world) create() Sandbox {
	w.t.Helper()
	var b Sandbox
	if got := w.call("full", http.MethodPost, "/v1/sandboxes", NewSandbox{}, &b); got != http.StatusCreated {
		w.t.Fatalf("got status %d", got)
	}
	return b
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	b := w.create()
	if b.Status != "running" || b.Template != "minimal" || b.VCPUs != 1 || b.MemoryMB != 512 || !strings.HasPrefix(b.ID, "cl-") || b.StartedAt == nil {
		t.Errorf("%+v", b)
	}
	var other Sandbox
	for i, step := range []struct {
		method, path string
		want         int
		status       string
	}{
		{"GET", "/v1/capsules/" + b.ID, 200, "running"},
		{"POST", "/v1/capsules/" + b.ID + "/resume", 409, ""},
		{"POST", "/v1/sandboxes/" + b.ID + "/pause", 200, "paused"},
		{"POST", "/v1/sandboxes/" + b.ID + "/resume", 200, "running"},
		{"DELETE", "/v1/sandboxes/" + b.ID, 204, ""},
		{"GET", "/v1/sandboxes/" + b.ID, 404, ""},
		{"DELETE", "/v1/sandboxes/" + b.ID, 404, ""},
	} {
		other = Sandbox{}
		if got := w.call("full", step.method, step.path, nil, &other); got != step.want || other.Status != step.status {
			t.Errorf("step %d: got %d and %q, want %d and %q", i, got, other.Status, step.want, step.status)
		}
	}
	var all []Sandbox
	if got := w.call("read", "GET", "/v1/sandboxes", nil, &all); got != 200 || len(all) != 0 {
		t.Errorf("got %d: %+v", got, all)
	}
}

func TestIdempotency(t *testing.T) {
	w := newWorld(t)
	var first, again Sandbox
	w.call("full", "POST", "/v1/sandboxes", NewSandbox{VCPUs: 2}, &first, "Idempotency-Key", "k")
	if got := w.call("full", "POST", "/v1/sandboxes", NewSandbox{VCPUs: 2}, &again, "Idempotency-Key", "k"); got != 201 || again.ID != first.ID {
		t.Errorf("got %d: %+v", got, again)
	}
	var e Error
	if got := w.call("full", "POST", "/v1/sandboxes", NewSandbox{VCPUs: 3}, &e, "Idempotency-Key", "k"); got != 409 || e.Detail.Hint == "" {
		t.Errorf("got %d: %+v", got, e)
	}
}

// TestTolerantBodies checks that the server accepts 30.0 as an integer and null as a missing field.
func TestTolerantBodies(t *testing.T) {
	w := newWorld(t)
	var got Sandbox
	in := json.RawMessage(`{"vcpus":2.0,"memory_mb":1.024e3,"disk_mb":null,"envs":null,"template":null}`)
	if status := w.call("full", "POST", "/v1/sandboxes", in, &got); status != 201 || got.VCPUs != 2 || got.MemoryMB != 1024 || got.DiskMB != 5120 {
		t.Errorf("got %d: %+v", status, got)
	}
}

// TestSpellingOfFields checks that the spelling of a field can't bypass its limits. Go's JSON
// decoder ignores the case of names, and the last field wins.
func TestSpellingOfFields(t *testing.T) {
	w := newWorld(t)
	for path, bodies := range map[string][]string{
		"/v1/sandboxes":  {`{"vcpus":1,"VCPUS":-4294967288}`, `{"memory_mb":512,"Memory_MB":-1}`, `{"VCPUS":65}`, `{"Template":"x"}`},
		"/v1/auth/login": {`{"email":"a@b","password":"x","Email":"` + strings.Repeat("a", 400) + `"}`},
	} {
		for _, in := range bodies {
			if got := w.call("full", "POST", path, json.RawMessage(in), nil); got != http.StatusBadRequest {
				t.Errorf("%.60s: got %d", in, got)
			}
		}
	}
	if all, err := w.store.Sandboxes(t.Context(), w.team); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestErrors checks the code of each kind of error.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	w.check(w.store.SetQuota(t.Context(), w.team, store.Quota{Sandboxes: 1}))
	b := w.create()
	for name, e := range map[string]struct {
		key, method, path string
		in                any
		status            int
		code              string
	}{
		"no key":        {"none", "GET", "/v1/sandboxes", nil, 401, "unauthorized"},
		"a scope":       {"read", "DELETE", "/v1/sandboxes/" + b.ID, nil, 403, "forbidden"},
		"another team":  {"foreign", "GET", "/v1/sandboxes/" + b.ID, nil, 404, "not_found"},
		"a state":       {"full", "POST", "/v1/sandboxes/" + b.ID + "/resume", nil, 409, "invalid_state"},
		"a quota":       {"full", "POST", "/v1/sandboxes", NewSandbox{}, 429, "quota_exceeded"},
		"a bound":       {"full", "POST", "/v1/sandboxes", NewSandbox{VCPUs: 65}, 400, "invalid_request"},
		"unknown field": {"full", "POST", "/v1/sandboxes", map[string]any{"cpus": 1}, 400, "invalid_request"},
		"no object":     {"full", "POST", "/v1/sandboxes", []int{1}, 400, "invalid_request"},
		"a wrong type":  {"full", "POST", "/v1/sandboxes", map[string]any{"vcpus": "2"}, 400, "invalid_request"},
		"no integer":    {"full", "POST", "/v1/sandboxes", map[string]any{"vcpus": 1.5}, 400, "invalid_request"},
	} {
		var got Error
		if status := w.call(e.key, e.method, e.path, e.in, &got); status != e.status || got.Detail.Code != e.code || got.Detail.Message == "" {
			t.Errorf("%s: got %d and %+v, want %d and %s", name, status, got, e.status, e.code)
		}
	}
	for hint, want := range map[string]string{
		"call DestroySandbox, then CreateSandbox": "call DELETE /v1/sandboxes/{id}, then POST /v1/sandboxes", "call ReadFileStream": "call POST /v1/sandboxes/{id}/files/stream/read",
		"wait": "wait",
	} {
		if r := newError(fault.Newf(fault.Exists, "x").WithHint("%s", hint)); r.Detail.Hint != want {
			t.Errorf("got the hint %q, want %q", r.Detail.Hint, want)
		}
	}
	for i := 0; i < len(routesOf); i += 2 {
		if pb.File_hostagent_v1_hostagent_proto.Services().Get(0).Methods().ByName(protoreflect.Name(routesOf[i])) == nil {
			t.Errorf("the host agent has no call %s", routesOf[i])
		}
		method, path, _ := strings.Cut(routesOf[i+1], " ")
		if strings.HasPrefix(path, "/") && (w.server.OpenAPI().Paths[path] == nil || methodsOf(w.server.OpenAPI().Paths[path])[method] == nil) {
			t.Errorf("there is no route %s", routesOf[i+1])
		}
	}
	if r := newError(fault.Newf(fault.Unavailable, "broken")); r.status != 503 || r.Detail.Code != "host_unavailable" {
		t.Errorf("%+v", r)
	}
}

// TestUnknownPaths checks that the body of every error is JSON.
func TestUnknownPaths(t *testing.T) {
	w := newWorld(t)
	for _, request := range []string{"GET /", "GET /v2/sandboxes", "PUT /v1/sandboxes", "GET /v1/sandboxes/a/b/c"} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, nil)
		w.check(err)
		r, err := http.DefaultClient.Do(req)
		w.check(err)
		var e Error
		err = json.NewDecoder(r.Body).Decode(&e)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusNotFound || e.Detail.Code != "not_found" {
			t.Errorf("%s: got %d and %+v, %v", request, r.StatusCode, e, err)
		}
	}
}

// TestLargeBodies sends bodies beyond the limits of a form and of JSON, with and without a length.
func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	write, create := "/v1/sandboxes/"+w.create().ID+"/files/write", "/v1/sandboxes"
	for name, in := range map[string]struct {
		path, kind, begin string
		size              int64
		length            bool
		status            int
	}{
		"form with a length":    {write, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n", maxRequest + 1, true, 413},
		"form without a length": {write, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n", maxRequest + 1, false, 413},
		"JSON with a length":    {create, "application/json", `{"template": "`, maxBody, true, 413},
		"JSON without a length": {create, "application/json", `{"template": "`, maxBody, false, 413},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+in.path, io.MultiReader(strings.NewReader(in.begin), io.LimitReader(zeros, in.size)))
		w.check(err)
		if in.length {
			req.ContentLength = int64(len(in.begin)) + in.size
			req.Header.Set("Expect", "100-continue") // the server refuses before it reads
		}
		req.Header.Set("Content-Type", in.kind)
		req.Header.Set(keyHeader, w.keys["full"])
		req.Close = true
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var e Error
		content, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if err := json.Unmarshal(content, &e); err != nil {
			t.Errorf("%s: %v: %q", name, err, content)
		}
		if r.StatusCode != in.status || !strings.Contains(e.Detail.Message, "too large") {
			t.Errorf("%s: got %d and %+v, want %d", name, r.StatusCode, e, in.status)
		}
	}
}

// endless is a reader that repeats its bytes without an end. It copies them, because a loop over
// all bytes is slow under the race detector.
type endless []byte

var (
	zeros   = endless(strings.Repeat("0", 32<<10))
	counted = endless(strings.Repeat("0123456789abcde", 2<<10))
)

func (e endless) Read(b []byte) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], e)
	}
	return n, nil
}

func TestKeysAPI(t *testing.T) {
	w := newWorld(t)
	w.tokens["owner"] = w.token(w.owner, w.team, time.Hour)
	var made Key
	if got := w.call("owner", "POST", "/v1/api-keys", map[string]any{"scopes": []string{"read"}}, &made); got != 201 || !strings.HasPrefix(made.Key, "wrn_") || made.Name != "Unnamed API Key" {
		t.Fatalf("got %d: %+v", got, made)
	}
	w.keys["made"] = made.Key
	if got := w.call("made", "POST", "/v1/sandboxes", NewSandbox{}, nil); got != 403 {
		t.Errorf("got %d", got)
	}
	if got := w.call("full", "POST", "/v1/api-keys", map[string]any{}, nil); got != 403 {
		t.Errorf("a key makes a key: got %d", got)
	}
	var all []Key
	if got := w.call("owner", "GET", "/v1/api-keys", nil, &all); got != 200 || len(all) != 4 || all[3].Key != "" || all[3].Prefix != made.Key[:10] {
		t.Errorf("got %d: %+v", got, all)
	}
	if got := w.call("owner", "DELETE", "/v1/api-keys/"+made.ID, nil, nil); got != 204 {
		t.Errorf("got %d", got)
	}
	if _, err := w.control.KeyIdentity(t.Context(), secret.New(made.Key), ""); err == nil {
		t.Error("a deleted key is valid")
	}
}
