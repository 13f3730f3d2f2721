package hostagent

import "github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"

// hostService implements what pyro's own control plane calls beyond the contract.
type hostService struct {
	hostv1connect.UnimplementedHostServiceHandler
	agent *Agent
}
