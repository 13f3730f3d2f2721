package workspace

import (
	"context"
	"net"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// DialPort connects to a TCP port on a loopback address of a workspace's machine. It resumes a
// paused workspace. See [remote.DialPort].
func (m *Manager) DialPort(ctx context.Context, id string, port int) (net.Conn, error) {
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	defer c.Close() // the open connection prevents a pause until DialPort has connected
	return remote.DialPort(ctx, m.folder(id), port)
}
