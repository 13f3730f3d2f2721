package hostagent

import (
	"sync"

	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// OpenWorkspaces opens the workspaces of a state folder as what sandboxes are made of. close gives back what they hold open.
func OpenWorkspaces(d dirs.Dirs, level machine.Isolation, network string) (w Workspaces, close func() error) {
	images, records := environment.Open(d), store.Open(d.State)
	program := sync.OnceValues(func() (string, error) { return dirs.Program("") })
	return Workspaces{
		Isolation: level, Network: network,
		Manager: &workspace.Manager{
			Dirs: d, Store: records, Environments: images, Program: program,
			Drivers: sync.OnceValues(func() (*isolation.Drivers, error) {
				path, _ := program() // that it is not there is told where it is needed
				return isolation.New(d, images, path)
			}),
		},
	}, records.Close
}
