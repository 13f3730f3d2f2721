package hostagent

import (
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// OpenWorkspaces opens the workspaces in a state folder. The caller must call close.
func OpenWorkspaces(d dirs.Dirs, level machine.Isolation, network string) (w Workspaces, close func() error) {
	m := workspace.Open(d, "")
	return Workspaces{Isolation: level, Network: network, Manager: m}, m.Store.Close
}
