package control

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
	"github.com/pyro-mcp/pyro/internal/passive"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// NewClient returns a client of a host agent that serves HTTP/2 without TLS. dial opens a
// connection to it. The host agent checks the token. The caller must call end, which closes idle
// connections.
func NewClient(dial func(ctx context.Context) (net.Conn, error), token secret.Value) (c HostClient, end func()) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:   &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	options := []connect.ClientOption{connect.WithGRPC(), connect.WithInterceptors(counter{}, tracing.RPC{})}
	client, address := &http.Client{Transport: bearer{transport, token}}, "http://host"
	return struct {
		hostagentv1connect.HostAgentServiceClient
		hostv1connect.HostServiceClient
	}{
		hostagentv1connect.NewHostAgentServiceClient(client, address, options...), hostv1connect.NewHostServiceClient(client, address, options...),
	}, transport.CloseIdleConnections
}

// bearer adds a token to requests, and marks passive ones.
type bearer struct {
	to    http.RoundTripper
	token secret.Value
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	passive.Mark(r)
	r.Header.Set("Authorization", "Bearer "+b.token.Reveal())
	return b.to.RoundTrip(r)
}
