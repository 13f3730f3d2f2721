package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/operations"
)

const (
	mcpPath = "/mcp"
	// metadataPath is the path of the metadata for OAuth clients (RFC 9728).
	metadataPath = "/.well-known/oauth-protected-resource"
	// maxTeams is the number of MCP servers at which servers without sessions are closed.
	maxTeams = 64
)

// mcpServers has an MCP server for each team, so that teams share neither sessions nor limits.
type mcpServers struct {
	most  int // maxTeams
	tools func() operations.SandboxTools

	mu     sync.Mutex
	closed bool
	teams  map[string]*teamServer
}

type teamServer struct {
	*operations.Server
	handler  http.Handler
	requests int // in progress
}

// bindMCP binds the MCP server and its authentication metadata for clients.
func (s *Server) bindMCP() {
	s.mcp.most = maxTeams
	s.mcp.tools = sync.OnceValue(func() operations.SandboxTools { return operations.NewSandboxTools(teamSandboxes{s}) })
	s.mux.HandleFunc(mcpPath, s.serveMCP)
	for _, path := range []string{metadataPath, metadataPath + mcpPath} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Access-Control-Allow-Origin", "*")
			json.NewEncoder(w).Encode(resourceMetadata{origin(r) + mcpPath, "pyro", []string{"header"}, control.Scopes})
		})
	}
}

// resourceMetadata is the metadata of RFC 9728. It names no authorization server, because users
// create API keys themselves.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported"`
}

// origin returns the origin that the client uses for this server.
func origin(r *http.Request) string {
	if secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// serveMCP serves a request to the MCP server of the sender's team. The request must contain a key
// or a token. A cookie is not enough, because other sites can cause a browser to send it.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if _, ok := bearer(r); !ok && r.Header.Get(keyHeader) == "" {
		r = r.Clone(r.Context())
		r.Header.Del("Cookie")
	}
	i, err := s.Identify(r)
	if err != nil {
		e := newError(err)
		if e.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pyro", resource_metadata=`+strconv.Quote(origin(r)+metadataPath+mcpPath))
		}
		writeError(w, e)
		return
	}
	t, err := s.mcp.use(i.TeamID)
	if err != nil {
		writeError(w, newError(err))
		return
	}
	defer s.mcp.release(t)
	t.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, i)))
}

// use returns the server of a team. The caller must release it.
func (m *mcpServers) use(team string) (*teamServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fault.Newf(fault.Unavailable, "the server is shutting down")
	}
	t := m.teams[team]
	if t == nil {
		if len(m.teams) >= m.most {
			m.closeIdle()
		}
		t = &teamServer{Server: m.tools().NewServer()}
		t.handler = t.GroupHandler(func(r *http.Request) string { return identity(r.Context()).ID })
		if m.teams == nil {
			m.teams = map[string]*teamServer{}
		}
		m.teams[team] = t
	}
	t.requests++
	return t, nil
}

func (m *mcpServers) release(t *teamServer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.requests--
}

// closeIdle removes servers without sessions and requests. The caller holds the lock.
func (m *mcpServers) closeIdle() {
	for team, t := range m.teams {
		if t.requests == 0 && t.Sessions() == 0 {
			t.Close()
			delete(m.teams, team)
		}
	}
}

// close ends all sessions, and their streams.
func (m *mcpServers) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, t := range m.teams {
		t.Close()
	}
}
