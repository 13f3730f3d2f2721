// Package mcptest connects tests to MCP servers.
package mcptest

import (
	"context"
	"io"
	"net"
	"os"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// Client connects the SDK's client to a server over a pair of sockets. If a result does not match
// the tool's output schema, the test fails. The client and the server stop when the test ends.
func Client(t testing.TB, serve func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	theirs, ours := sockets(t)
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

// sockets returns two connected sockets. A server notices immediately when its peer is closed.
func sockets(t testing.TB) (theirs, ours net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		if ends[i], err = net.FileConn(file); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}
