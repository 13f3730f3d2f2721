package hostagent

import "github.com/pyro-mcp/pyro/internal/gen/host/v1/hostv1connect"

// hostService implements additional calls for pyro's own control plane. They are not part of the
// contract.
type hostService struct {
	hostv1connect.UnimplementedHostServiceHandler
	agent *Agent
}
