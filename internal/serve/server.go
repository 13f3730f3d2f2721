// Package serve is the HTTP API of a control plane.
//
// The OpenAPI document at /openapi.json is generated from the Go types of the operations; /docs
// shows it. Programs send an API key in the header X-API-Key, and browsers send a session cookie.
// /v1/capsules is another spelling of /v1/sandboxes.
package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/preview"
	"github.com/pyro-mcp/pyro/internal/rpc"
	"github.com/pyro-mcp/pyro/internal/runes"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/version"
)

// Options configure a Server.
type Options struct {
	Control *control.Control
	Log     *slog.Logger // nil: slog.Default
	Hosts   []string     // names of this server in addition to localhost, in lower case; each is also a domain of previews
	Metrics secret.Value // the token for /metrics; empty: there is no /metrics
	OIDC    *OIDC        // nil: no login at an OpenID provider
}

// Server serves the API. It is an http.Handler.
type Server struct {
	control     *control.Control
	log         *slog.Logger
	hosts       []string
	api         huma.API
	mux         *http.ServeMux
	crossOrigin *http.CrossOriginProtection
	sockets     sockets
	terminals   terminals
	events      *eventStreams
	pingEvery   time.Duration // of WebSockets
	pongTime    time.Duration // the longest time until a client answers a ping
	quiet       time.Duration // the longest pause of a client
	previews    *preview.Handler
	observed    *observed
	mcp         mcpServers

	requests, visits  *limiter // limits of requests for the API, and for previews
	logins, addresses *limiter // of failed logins
	inProgress        teamCounter
}

// Maximum sizes of the body of a request, in bytes.
const (
	maxBody    = 1 << 20             // without a file
	maxRequest = maxUpload + maxBody // with a file
)

// keyHeader is the header for API keys.
const keyHeader = control.KeyHeader

// New returns a server.
func New(o Options) *Server {
	s := &Server{control: o.Control, log: o.Log, hosts: o.Hosts, mux: http.NewServeMux(), sockets: newSockets(), events: newEventStreams(), pingEvery: pingEvery, pongTime: pingEvery, quiet: quiet, crossOrigin: http.NewCrossOriginProtection(), observed: newObserved()}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.previews = preview.New(preview.Options{Control: s.control, Domains: s.hosts, Log: s.log, Secure: secure, Address: address, Proxied: fromProxy, Limit: s.limitPreview})
	s.requests, s.visits = newLimiter(requestRate, requestBurst, time.Now), newLimiter(previewRate, previewBurst, time.Now)
	s.logins, s.addresses = newLimiter(loginRate, loginBurst, time.Now), newLimiter(addressRate, addressBurst, time.Now)
	config := huma.DefaultConfig("pyro", version.String())
	config.Info.Description = "Sandboxes for AI agents. Send an API key in the header " + keyHeader + "."
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":     {Type: "apiKey", In: "header", Name: keyHeader},
		"token":   {Type: "http", Scheme: "bearer", Description: "An API key, or the token of a session"},
		"session": {Type: "apiKey", In: "cookie", Name: cookieName},
	}
	config.Formats = map[string]huma.Format{"application/json": onlyText, "json": onlyText}
	config.CreateHooks = nil // no link to the schema in each body
	config.DocsPath = ""     // huma's page loads a script from another site
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	s.api = humago.New(s.mux, config)
	s.api.UseMiddleware(s.authenticate)
	s.bindHealth()
	for _, base := range []string{"sandboxes", "capsules"} {
		s.bindSandboxes(base)
		s.bindExec(base)
		s.bindFiles(base)
		s.bindStats(base)
		s.bindFileStreams(base)
		s.bindStreams(base)
		s.bindPty(base)
		s.bindWatch(base)
		s.bindPreviews(base)
		s.bindChanges(base)
		s.bindServices(base)
		s.bindActivity(base)
	}
	s.bindSnapshots()
	s.bindKeys()
	s.bindLogin()
	s.bindEvents()
	s.bindMCP()
	s.mux.HandleFunc("GET "+preview.PagePath, s.openPreview)
	s.bindOIDC(o.OIDC)
	s.bindMe()
	s.bindTeams()
	s.bindMembers()
	s.bindAudit()
	s.bindHosts()
	s.bindPage()
	s.bindMetrics(o.Metrics)
	s.bindDocs()
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.observe(w, r, http.HandlerFunc(s.answer))
}

func (s *Server) answer(original http.ResponseWriter, r *http.Request) {
	w := withTimeouts(original, r, s.quiet)
	defer w.begin()
	if p, ok := s.previews.Port(r); ok { // another origin, with other content and rules
		r.Pattern = "preview" // the route in the log and the metrics
		s.previews.Serve(w, r, p)
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := s.checkSender(r); err != nil {
		writeError(w, newError(err))
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") { // http.ServeMux has no JSON error for such a target
		writeError(w, refusal(http.StatusBadRequest, "the target of the request is not a path", ""))
		return
	}
	r.Body = w.body
	if strings.HasSuffix(r.URL.Path, streamWrite) {
		s.mux.ServeHTTP(w, r)
		return
	}
	if r.ContentLength > maxRequest {
		writeError(w, refusal(http.StatusRequestEntityTooLarge, "the body is too large", ""))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest) // huma does not limit forms
	s.mux.ServeHTTP(w, r)
}

// OpenAPI returns the OpenAPI document of the API.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// operation returns the description of an operation that needs a role.
func operation(method, path, id, summary string, role store.Role, change ...func(*huma.Operation)) huma.Operation {
	o := huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, MaxBodyBytes: maxBody, Metadata: map[string]any{need: role},
		BodyReadTimeout: -1, // see timeoutBody
		Security:        []map[string][]string{{"key": {}}, {"token": {}}, {"session": {}}}, Errors: []int{400, 401, 403, 404, 409, 413, 429, 501, 502, 503, 504},
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// status sets the status of a success.
func status(code int) func(*huma.Operation) {
	return func(o *huma.Operation) { o.DefaultStatus = code }
}

// Health is the answer of /health.
type Health struct {
	Status  string `json:"status" example:"ok"`
	Version string `json:"version"`
}

func (s *Server) bindHealth() {
	huma.Register(s.api, huma.Operation{Method: http.MethodGet, Path: "/health", OperationID: "health", Summary: "Report whether the server works"},
		func(ctx context.Context, _ *struct{}) (*body[Health], error) {
			return &body[Health]{Health{"ok", version.String()}}, nil
		})
}

// body is an answer with a JSON body.
type body[T any] struct{ Body T }

// listed converts records to an answer. If err is not nil, it returns the error for the client.
func listed[Record, Item any](found []Record, err error, item func(Record) Item) (*body[[]Item], error) {
	if err != nil {
		return nil, newError(err)
	}
	return &body[[]Item]{itemsOf(found, item)}, nil
}

// itemsOf converts records to items. It never returns nil, because JSON would then contain null.
func itemsOf[Record, Item any](all []Record, item func(Record) Item) []Item {
	items := make([]Item, 0, len(all))
	for _, r := range all {
		items = append(items, item(r))
	}
	return items
}

// onlyText is the JSON format. It refuses bodies with invalid text, such as a lone surrogate. It
// accepts 30.0 as an integer and null as a missing field.
var onlyText = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		if err := runes.CheckText(data); err != nil {
			return fault.Newf(fault.Invalid, "the body must be text: %w", err)
		}
		return json.Unmarshal(rpc.Tolerant(data), v)
	},
}
