package pyro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestForwardPorts forwards ports to a workspace on the host. The ports of its programs are ports
// of the host.
func TestForwardPorts(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	guest := server.Addr().(*net.TCPAddr).Port
	opened, failed, ended := make(chan PublishedPort, 2), make(chan error, 10), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- p.ForwardPorts(ctx, ForwardPortsRequest{
			WorkspaceID: id, Ports: []PublishedPort{{GuestPort: guest}, {GuestPort: 1}},
			Forwarding: func(p PublishedPort) { opened <- p }, Failed: func(_ PublishedPort, err error) { failed <- err },
		})
	}()
	read := func(port int) string {
		t.Helper()
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return ""
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(testenv.Patience))
		text, _ := io.ReadAll(c)
		return string(text)
	}
	one, other := <-opened, <-opened
	if one.GuestPort != guest || other.GuestPort != 1 || one.HostPort == 0 || one.HostPort == other.HostPort {
		t.Errorf("%+v, %+v", one, other)
	}
	if got := read(one.HostPort); got != "hello" {
		t.Errorf("read %q", got)
	}
	if got := read(other.HostPort); got != "" {
		t.Errorf("a closed port: read %q", got)
	}
	if err := <-failed; KindOf(err) != Unavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
	if _, err := p.StopWorkspace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := read(one.HostPort); got != "" {
		t.Errorf("a stopped workspace: read %q", got)
	}
	if err := <-failed; KindOf(err) != Precondition || !strings.Contains(HintOf(err), "workspace start") {
		t.Errorf("a stopped workspace: %v", err)
	}
	if _, err := p.StartWorkspace(t.Context(), StartWorkspaceRequest{WorkspaceID: id}); err != nil {
		t.Fatal(err)
	}
	if got := read(one.HostPort); got != "hello" {
		t.Errorf("after a start: read %q", got)
	}
	err = p.ForwardPorts(ctx, ForwardPortsRequest{WorkspaceID: id, Ports: []PublishedPort{{GuestPort: guest, HostPort: one.HostPort}}})
	if KindOf(err) != Exists || !strings.Contains(HintOf(err), fmt.Sprint(":", guest)) {
		t.Errorf("a port in use: %v, hint %q", err, HintOf(err))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", one.HostPort)); err == nil {
		c.Close()
		t.Error("the port is open after the end")
	}
}

func TestForwardPortsRefuses(t *testing.T) {
	p := withWorkspaces(t)
	id := p.create(t, nil)
	for name, req := range map[string]ForwardPortsRequest{
		"no port":      {WorkspaceID: id},
		"port 0":       {WorkspaceID: id, Ports: []PublishedPort{{}}},
		"a large port": {WorkspaceID: id, Ports: []PublishedPort{{GuestPort: 65536}}},
		"a host port":  {WorkspaceID: id, Ports: []PublishedPort{{GuestPort: 1, HostPort: -1}}},
	} {
		if err := p.ForwardPorts(t.Context(), req); !errors.Is(err, Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	req := ForwardPortsRequest{WorkspaceID: "ws-000000000000", Ports: []PublishedPort{{GuestPort: 1}}}
	if err := p.ForwardPorts(t.Context(), req); !errors.Is(err, NotFound) {
		t.Errorf("an unknown workspace: %v", err)
	}
}
