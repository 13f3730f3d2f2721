package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Resource is a document that a client can read, and can show to a user or a model.
type Resource struct {
	URI         string // or a URI template (RFC 6570), such as "thing://{id}/text"
	Name        string
	Description string
	MIME        string
	Read        func(ctx context.Context, uri string) (text string, err error) // returns at most MaxResult bytes
}

// AddResources adds resources. The caller must call it before the server starts to serve.
func (s *Server) AddResources(all ...Resource) {
	for _, r := range all {
		read := func(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			ctx = context.WithValue(ctx, connectionKey{}, connection{s, request.Session})
			text, err := r.Read(ctx, request.Params.URI)
			if err == nil && len(text) > MaxResult {
				err = fault.New(fault.Exhausted, "read resource", r.Name, "it has %d bytes; the limit is %d", len(text), MaxResult)
			}
			if err != nil {
				return nil, readError(s.hinted(err))
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: request.Params.URI, MIMEType: r.MIME, Text: text}}}, nil
		}
		if strings.Contains(r.URI, "{") {
			s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: r.URI, Name: r.Name, Description: r.Description, MIMEType: r.MIME}, read)
		} else {
			s.sdk.AddResource(&sdk.Resource{URI: r.URI, Name: r.Name, Description: r.Description, MIMEType: r.MIME}, read)
		}
	}
}

// readError converts an error to the form that the protocol requires for resources.
func readError(err error) error {
	f := failure{err.Error(), fault.KindOf(err), fault.HintOf(err)}
	code := int64(jsonrpc.CodeInvalidParams) // this code is also used for missing resources since protocol version 2026-07-28
	if f.Kind == fault.Internal {
		code = jsonrpc.CodeInternalError
	}
	text := f.Error
	if f.Hint != "" {
		text += "; hint: " + f.Hint
	}
	data, jerr := json.Marshal(f)
	if jerr != nil {
		slog.Error("encode an error", "error", jerr)
	}
	return &jsonrpc.Error{Code: code, Message: text, Data: data}
}

// connection is the connection that a call or a read belongs to.
type connection struct {
	server *Server
	client *sdk.ServerSession
}

type connectionKey struct{}

// maxKeys is the maximum number of keys stored per connection.
const maxKeys = 64

// Remember stores a key for the connection of a call. The server forgets the key when the client
// disconnects. With protocol version 2026-07-28 over HTTP, each call has its own connection.
func Remember(ctx context.Context, key string) {
	c, ok := ctx.Value(connectionKey{}).(connection)
	if !ok || key == "" {
		return
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys[c.client]
	if keys == nil {
		here := map[*sdk.ServerSession]map[string]bool{}
		for client := range s.sdk.Sessions() { // removes the keys of disconnected clients
			if keys := s.keys[client]; keys != nil || client == c.client {
				here[client] = keys
			}
		}
		if _, connected := here[c.client]; !connected {
			return
		}
		keys = map[string]bool{}
		here[c.client] = keys
		s.keys = here
	}
	if len(keys) < maxKeys {
		keys[key] = true
	}
}

// Remembers reports whether Remember was called with this key on the connection of the call.
func Remembers(ctx context.Context, key string) bool {
	c, ok := ctx.Value(connectionKey{}).(connection)
	if !ok {
		return false
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.keys[c.client][key]
}
