package supervisor

import (
	"context"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/hostnet"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// install writes the files of the host's network settings to the machine.
func (m *Machine) install(ctx context.Context, settings *store.HostNetwork) error {
	if settings == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	began := time.Now()
	err := hostnet.Install(ctx, machineFiles{m.Agent}, settings, hostnet.ThisHost().Bundle)
	m.phases = append(m.phases, machine.Phase{Name: "host settings", Duration: time.Since(began)})
	return err
}

// machineFiles is the file system of a machine, as hostnet needs it.
type machineFiles struct{ *client.Client }

func (f machineFiles) WriteFile(ctx context.Context, path, content string) error {
	return f.Client.WriteFile(ctx, client.FileSpec{Path: path, MakeParents: true, Size: int64(len(content))}, strings.NewReader(content))
}

func (f machineFiles) List(ctx context.Context, path string) (names []string, err error) {
	err = f.ListMachine(ctx, path, 1, func(e listing.Entry) error {
		names = append(names, e.Path)
		return nil
	})
	return names, err
}
