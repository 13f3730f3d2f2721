package operations

import (
	"context"
	"os"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp/mcptest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.RunWithPrograms(m)) }

// open opens pyro with temporary folders. It deletes the workspaces at the end of the test.
func open(t *testing.T) *pyro.Pyro {
	t.Helper()
	before := goleak.IgnoreCurrent()
	p, err := pyro.New(pyro.Options{CacheDir: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := p.ListWorkspaces(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, w := range left {
			if _, err := p.DeleteWorkspace(context.Background(), w.WorkspaceID); err != nil {
				t.Error(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	return p
}

// serve returns a server with the tools of a profile. If p is nil, operations panic.
func serve(t *testing.T, p *pyro.Pyro, profile Profile, project string) *Server {
	t.Helper()
	s, err := NewServer(p, profile, project)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client returns a client of the MCP SDK that is connected to the server.
func (s *Server) client(t *testing.T) *sdk.ClientSession {
	t.Helper()
	return mcptest.Client(t, s.Run, nil)
}
