package serve

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// sockets are the open WebSockets of a server.
type sockets struct {
	mu        sync.Mutex
	open      map[*socket]struct{}
	empty     chan struct{} // closed when ending is set and no socket is open
	ending    bool
	anonymous int // sockets of clients that have not sent their API key
}

func newSockets() sockets {
	return sockets{open: map[*socket]struct{}{}, empty: make(chan struct{})}
}

// add adds a socket, unless the server is shutting down.
func (all *sockets) add(c *socket) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ending {
		return false
	}
	all.open[c] = struct{}{}
	return true
}

func (all *sockets) remove(c *socket) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, c)
	if all.ending && len(all.open) == 0 {
		close(all.empty)
	}
}

// reserve counts a client that has not sent its API key yet. It fails if there are too many. The
// caller must call done; further calls of done do nothing.
func (all *sockets) reserve(anonymous bool) (done func(), err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case all.ending:
		return nil, fault.Newf(fault.Unavailable, goingAway)
	case !anonymous:
		return func() {}, nil
	case all.anonymous == maxStrangers:
		return nil, fault.Newf(fault.Exhausted, "too many connections wait for their API key").WithHint("send an API key in the header " + keyHeader)
	}
	all.anonymous++
	return sync.OnceFunc(func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.anonymous--
	}), nil
}

// goingAway is the reason for closing connections when the server ends.
const goingAway = "the server is shutting down"

// Shutdown closes all WebSockets with the status 1001, so that their clients connect again, and
// refuses new ones. http.Server.Shutdown does not wait for them. It also ends the streams of
// events and previews, and the sessions of MCP clients.
func (s *Server) Shutdown() {
	s.events.shutdown()
	var others sync.WaitGroup
	others.Go(s.previews.Close)
	others.Go(s.mcp.close)
	defer others.Wait()
	all := &s.sockets
	all.mu.Lock()
	if all.ending {
		all.mu.Unlock()
		return
	}
	all.ending = true
	if len(all.open) == 0 {
		close(all.empty)
	}
	var closing []*socket
	for c := range all.open {
		closing = append(closing, c)
	}
	all.mu.Unlock()
	for _, c := range closing {
		go c.closed.Do(func() { c.conn.Close(websocket.StatusGoingAway, goingAway) })
	}
	select {
	case <-all.empty:
		return
	case <-time.After(closeTimeout):
	}
	for _, c := range closing {
		c.end()
	}
	<-all.empty
}

// upgrades reports whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// isSocket is the metadata key of operations whose answer is a WebSocket.
const isSocket = "socket"

// isStream is the metadata key of operations whose answer has no end.
const isStream = "stream"

// answersSocket changes an operation to one whose answer is a WebSocket.
func answersSocket(o *huma.Operation) {
	o.DefaultStatus = http.StatusSwitchingProtocols
	o.Responses = map[string]*huma.Response{"101": {Description: "The connection becomes a WebSocket. docs/api.md describes its frames."}}
	o.Metadata[isSocket], o.Metadata[isStream] = true, true
}

// authenticatesByFrame reports whether the client of a request must send its API key in its first
// frame. A browser can't add headers to a WebSocket. It adds the session cookie even if another
// site opens the WebSocket, so the cookie counts only if a page of this server does.
func authenticatesByFrame(o *huma.Operation, r *http.Request) bool {
	if o.Metadata[isSocket] == nil || !upgrades(r) || hasKey(r) {
		return false
	}
	_, session := sessionToken(r)
	return !session || !fromOwnPage(r)
}

// fromOwnPage reports whether a page of this server sent a request.
func fromOwnPage(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == secure(r)
}

// bindSocket binds an operation whose answer is a WebSocket. sandbox returns the ID of the sandbox
// in its input. use serves the connection of a client that has the role of the operation.
func bindSocket[In any](s *Server, o huma.Operation, sandbox func(*In) string, use func(c *socket, in *In) error) {
	answersSocket(&o)
	role, _ := o.Metadata[need].(store.Role)
	huma.Register(s.api, o, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		known := identity(ctx).TeamID != ""
		if known {
			if _, err := s.client(ctx, sandbox(in)); err != nil {
				return nil, newError(err)
			}
		}
		return &huma.StreamResponse{Body: func(out huma.Context) {
			r, w := humago.Unwrap(out)
			if !upgrades(r) {
				s.write(out, fault.Newf(fault.Invalid, "this operation needs a WebSocket").WithHint("connect with ws:// or wss://"))
				return
			}
			done, err := s.sockets.reserve(!known)
			if err != nil {
				s.write(out, err)
				return
			}
			defer done()
			// The origin of clients without a cookie does not matter.
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
			if err != nil {
				return // Accept has answered
			}
			c := &socket{conn: conn, by: identity(ctx)}
			c.ctx, c.end = context.WithCancel(ctx)
			defer conn.CloseNow()
			defer c.end()
			if !s.sockets.add(c) {
				c.conn.Close(websocket.StatusGoingAway, goingAway)
				return
			}
			defer s.sockets.remove(c)
			if !known {
				r, err = s.authenticateFrame(c, r, role)
				done()
				if err == nil {
					_, err = s.control.Client(c.ctx, c.by.Actor, sandbox(in))
				}
			}
			if err != nil {
				c.finish(err)
				return
			}
			c.conn.SetReadLimit(maxFrame)
			var watching sync.WaitGroup
			watching.Go(func() { s.watch(c, r, role) })
			c.finish(use(c, in))
			c.end()
			watching.Wait()
		}}, nil
	})
}

// authenticateFrame waits for the first frame of a client, which contains an API key or a session
// token. It returns a copy of the request with this key or token as a header.
func (s *Server) authenticateFrame(c *socket, r *http.Request, role store.Role) (*http.Request, error) {
	c.conn.SetReadLimit(maxFirstFrame)
	late := time.AfterFunc(firstFrame, func() {
		c.finish(unauthenticated("no frame with an API key arrived within 5 s"))
	})
	defer late.Stop()
	f, err := c.next()
	if err != nil {
		return nil, err
	}
	if f.Type != "auth" || f.Token == "" {
		return nil, unauthenticated("the first frame must be of the type auth")
	}
	r = r.Clone(c.ctx)
	r.Header.Del("Cookie")
	r.Header.Set("Authorization", "Bearer "+f.Token)
	c.by, err = s.allowed(r, role)
	return r, err
}

func unauthenticated(reason string) error {
	return refusal(http.StatusUnauthorized, reason, `send {"type": "auth", "token": KEY}, or an API key in the header `+keyHeader)
}

// allowed returns the sender of a request. It fails if the sender does not have the role.
func (s *Server) allowed(r *http.Request, role store.Role) (control.Identity, error) {
	i, err := s.Identify(r)
	if err == nil {
		err = i.Require(role)
	}
	return i, err
}

// stillAllowed is like allowed, for later checks while an answer is in progress. These checks do
// not use the rate limit. Otherwise other requests of the same network could end the stream, or
// hide that the sender has lost access.
func (s *Server) stillAllowed(r *http.Request, role store.Role) (control.Identity, error) {
	i, err := s.sender(r)
	if err == nil {
		err = i.Require(role)
	}
	return i, err
}

// watch pings the client. It closes the connection if the client does not answer, or if the
// client's key or session has ended.
func (s *Server) watch(c *socket, r *http.Request, role store.Role) {
	tick := time.NewTicker(s.pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.stillAllowed(r.WithContext(c.ctx), role); fault.KindOf(err) == fault.Permission {
			c.finish(err)
			return
		}
		if c.pings.Load() {
			c.send(event{Type: "ping"})
		}
		ctx, cancel := context.WithTimeout(c.ctx, s.pongTime)
		err := c.conn.Ping(ctx)
		cancel()
		if err != nil {
			c.end()
			return
		}
	}
}
