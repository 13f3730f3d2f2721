// Package mcptest connects tests with servers of the Model Context Protocol.
package mcptest

import (
	"context"
	"io"
	"net"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Client connects the SDK's client over streams with what serves them, and fails the test if a result is not as its tool's output schema says. Both have ended with the test.
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
