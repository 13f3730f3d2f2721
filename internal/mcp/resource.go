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

// Resource is what clients may read to show it to a person, or to a model.
type Resource struct {
	URI         string // or a template of URIs (RFC 6570), such as "thing://{id}/text"
	Name        string
	Description string
	MIME        string
	Read        func(ctx context.Context, uri string) (text string, err error) // of at most MaxResult bytes
}

// Offer adds resources, before anybody is served.
func (s *Server) Offer(all ...Resource) {
	for _, r := range all {
		read := func(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			ctx = context.WithValue(ctx, connectionKey{}, connection{s, request.Session})
			text, err := r.Read(ctx, request.Params.URI)
			if err == nil && len(text) > MaxResult {
				err = fault.New(fault.Exhausted, "read resource", r.Name, "it has %d bytes, and may have %d", len(text), MaxResult)
			}
			if err != nil {
				return nil, unread(s.hinted(err))
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

// unread is an error as the protocol has it for resources.
func unread(err error) error {
	f := failure{err.Error(), fault.KindOf(err), fault.HintOf(err)}
	code := int64(jsonrpc.CodeInvalidParams) // of what is not there too, since protocol 2026-07-28
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

// connection is what a call or a read came by.
type connection struct {
	server *Server
	client *sdk.ServerSession
}

type connectionKey struct{}

// maxWords is how many words are remembered of a connection.
const maxWords = 64

// Remember notes a word of the connection that a call came by, as long as its client is connected. In protocol 2026-07-28 over HTTP each call is a connection of its own.
func Remember(ctx context.Context, word string) {
	c, ok := ctx.Value(connectionKey{}).(connection)
	if !ok || word == "" {
		return
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	words := s.words[c.client]
	if words == nil {
		here := map[*sdk.ServerSession]map[string]bool{}
		for client := range s.sdk.Sessions() { // those who have gone are forgotten
			if words := s.words[client]; words != nil || client == c.client {
				here[client] = words
			}
		}
		if _, connected := here[c.client]; !connected {
			return
		}
		words = map[string]bool{}
		here[c.client] = words
		s.words = here
	}
	if len(words) < maxWords {
		words[word] = true
	}
}

// Remembers tells whether a word was noted of the connection that a call came by.
func Remembers(ctx context.Context, word string) bool {
	c, ok := ctx.Value(connectionKey{}).(connection)
	if !ok {
		return false
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.words[c.client][word]
}
