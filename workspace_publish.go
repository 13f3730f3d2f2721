package pyro

import "context"

// PublishServiceRequest names a running service, and ports to publish. All fields are required.
type PublishServiceRequest struct {
	WorkspaceID    string          `json:"workspace_id"`
	ServiceName    string          `json:"service_name"`
	PublishedPorts []PublishedPort `json:"published_ports"`
}

// PublishService publishes more TCP ports of a running service, until the service ends. It
// publishes all of them or none. The workspace needs the policy NetworkPublished. If a port is
// already published or in use, the error has the kind Exists.
func (p *Pyro) PublishService(ctx context.Context, req PublishServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if len(req.PublishedPorts) == 0 {
		return nil, required("published_ports", "")
	}
	s, spec, err := p.workspaces.PublishPorts(ctx, req.WorkspaceID, req.ServiceName, portsOf(req.PublishedPorts))
	return serviceOf(ctx, req.WorkspaceID, s, spec, err)
}

// UnpublishServiceRequest names a running service, and published ports of the workspace. All fields
// are required.
type UnpublishServiceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ServiceName string `json:"service_name"`
	GuestPorts  []int  `json:"guest_ports"`
}

// UnpublishService closes published ports of a running service, with all their connections. If one
// of the ports is not published, it closes none, and the error has the kind NotFound.
func (p *Pyro) UnpublishService(ctx context.Context, req UnpublishServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if len(req.GuestPorts) == 0 {
		return nil, required("guest_ports", "")
	}
	for _, port := range req.GuestPorts {
		if port < 1 || port > 65535 {
			return nil, invalid("%d is not a port", port)
		}
	}
	s, spec, err := p.workspaces.UnpublishPorts(ctx, req.WorkspaceID, req.ServiceName, req.GuestPorts)
	return serviceOf(ctx, req.WorkspaceID, s, spec, err)
}
