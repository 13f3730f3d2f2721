// Package mcptest connects tests to MCP servers.
package mcptest

import (
	"context"
	"io"
	"net"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Client connects the SDK's client to a server over a pipe. If a result does not match the tool's
// output schema, the test fails. The client and the server stop when the test ends.
func Client(t testing.TB, serve func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	theirs, ours := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(context.Background(), ours, ours) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, o)
	client.AddSendingMiddleware(checked(t))
	c, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: theirs, Writer: theirs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}
