package ptymcp

import (
	"context"
	"net/url"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Resources have no argument for an owner. A connection reads what is of the owners that its tools were called with; any reads what is of the owner that the URI names.

const (
	sessionsURI = "pty://sessions"
	screenURI   = "pty://session/{id}/screen"
)

func (s *Server) resources() []mcp.Resource {
	list := mcp.Resource{URI: sessionsURI, Name: "sessions", Description: "The sessions, as pty_list tells of them.", MIME: "application/json", Read: s.readSessions}
	screen := mcp.Resource{URI: screenURI, Name: "screen", Description: "What a person would see of a session.", MIME: "text/plain", Read: s.readScreen}
	of := func(r mcp.Resource, name string) mcp.Resource {
		r.URI, r.Name = r.URI+"?owner={owner}", name
		return r
	}
	return []mcp.Resource{list, screen, of(list, "sessions of an owner"), of(screen, "screen of an owner's session")}
}

// reads tells what of the sessions a connection may read, by a URI.
func (s *Server) reads(ctx context.Context, uri *url.URL) func(session.Info) bool {
	owner := uri.Query().Get("owner")
	return func(info session.Info) bool {
		switch {
		case owner != "":
			return info.Owner == owner
		case !s.config.RequireOwner:
			return true
		}
		return mcp.Remembers(ctx, info.Owner)
	}
}

func (s *Server) readSessions(ctx context.Context, uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", fault.New(fault.Invalid, "read resource", "", "%.200q is no URI", uri)
	}
	found, err := s.summaries(ctx, s.reads(ctx, u))
	if err != nil {
		return "", err
	}
	text, err := asJSON(found)
	return string(text), err
}

func (s *Server) readScreen(ctx context.Context, uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", fault.New(fault.Invalid, "read resource", "", "%.200q is no URI", uri)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	info, err := s.sessions.Get(id)
	if err != nil {
		return "", err
	}
	if !s.reads(ctx, u)(info) {
		return "", fault.New(fault.Permission, "read resource", info.ID, "no tool was called with its owner by this connection").WithHint("%s?owner=NAME", uri)
	}
	look, err := lookAt(ctx, info)
	if err != nil {
		return "", err
	}
	return strings.Join(look.Screen, "\n") + "\n", nil
}
