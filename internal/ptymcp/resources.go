package ptymcp

import (
	"context"
	"net/url"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/mcp"
	"github.com/pyro-mcp/pyro/internal/session"
)

// Resources have no argument for the owner. A connection can read the sessions of the owners that
// it has used in tool calls. Alternatively a URI can name the owner.

const (
	sessionsURI = "pty://sessions"
	screenURI   = "pty://session/{id}/screen"
)

func (s *Server) resources() []mcp.Resource {
	list := mcp.Resource{URI: sessionsURI, Name: "sessions", Description: "The sessions, in the form of pty_list.", MIME: "application/json", Read: s.readSessions}
	screen := mcp.Resource{URI: screenURI, Name: "screen", Description: "The text on the screen of a session.", MIME: "text/plain", Read: s.readScreen}
	of := func(r mcp.Resource, name string) mcp.Resource {
		r.URI, r.Name = r.URI+"?owner={owner}", name
		return r
	}
	return []mcp.Resource{list, screen, of(list, "sessions of an owner"), of(screen, "screen of an owner's session")}
}

// reads returns the path of a URI, and a function that reports whether the connection can read a
// session.
func (s *Server) reads(ctx context.Context, uri string) (path string, may func(session.Info) bool, err error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", nil, fault.New(fault.Invalid, "read resource", "", "%.200q is not a URI", uri)
	}
	owner := u.Query().Get("owner")
	return u.Path, func(info session.Info) bool {
		switch {
		case owner != "":
			return info.Owner == owner
		case !s.config.RequireOwner:
			return true
		}
		return mcp.Remembers(ctx, info.Owner)
	}, nil
}

func (s *Server) readSessions(ctx context.Context, uri string) (string, error) {
	_, may, err := s.reads(ctx, uri)
	if err != nil {
		return "", err
	}
	found, err := s.summaries(ctx, may)
	if err != nil {
		return "", err
	}
	return asJSON(found)
}

func (s *Server) readScreen(ctx context.Context, uri string) (string, error) {
	path, may, err := s.reads(ctx, uri)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	info, err := s.sessions.Get(id)
	if err != nil {
		return "", err
	}
	if !may(info) {
		return "", fault.New(fault.Permission, "read resource", info.ID, "this connection has not called a tool with its owner").WithHint("%s?owner=NAME", uri)
	}
	look, err := currentScreen(ctx, info)
	if err != nil {
		return "", err
	}
	return strings.Join(look.Screen, "\n") + "\n", nil
}
