package serve

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/control/store"
)

// ByName contains the path parameters of requests about a service.
type ByName struct {
	ByID
	Name string `path:"name" maxLength:"64"`
}

// service is a request that names a service.
type service struct {
	Name string `json:"service_name"`
}

func serviceIn(in *ByName) (string, service, pyro.Service) {
	return in.ID, service{in.Name}, pyro.Service{}
}

// logQuery limits the output of a service to read.
type logQuery struct {
	ByName
	TailLines int  `query:"tail_lines" minimum:"1" maximum:"1048576" doc:"The last lines of each stream; default 200"`
	All       bool `query:"all" doc:"All stored lines"`
}

// bindServices binds the operations for services, which are named background programs.
func (s *Server) bindServices(base string) {
	all := "/v1/" + base + "/{id}/services"
	register(s, operation(http.MethodGet, all, base+"-services", "List the services", store.RoleViewer), "list_services", byID[pyro.WorkspaceServices])
	register(s, operation(http.MethodPost, all, base+"-services-start", "Start a named program in the background, and return when it is ready", store.RoleMember, status(http.StatusCreated)),
		"start_service", requestIn[pyro.StartServiceRequest, pyro.Service])
	register(s, operation(http.MethodGet, all+"/{name}", base+"-services-get", "Describe a service", store.RoleViewer), "status_service", serviceIn)
	register(s, operation(http.MethodPost, all+"/{name}/stop", base+"-services-stop", "Stop a service", store.RoleMember), "stop_service", serviceIn)
	register(s, operation(http.MethodGet, all+"/{name}/logs", base+"-services-logs", "Return the last output of a service", store.RoleViewer), "logs_service",
		func(in *logQuery) (string, pyro.LogsServiceRequest, pyro.ServiceLogs) {
			return in.ID, pyro.LogsServiceRequest{ServiceName: in.Name, TailLines: in.TailLines, All: in.All}, pyro.ServiceLogs{}
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/"+base+"/{id}/service-ports", base+"-service-ports", "List the published ports of services and the ports of their readiness checks", store.RoleViewer),
		func(ctx context.Context, in *ByID) (*body[ServicePorts], error) {
			found, err := callOperation[struct{}, pyro.WorkspaceServices](ctx, s, in.ID, "list_services", false, struct{}{})
			if err != nil {
				return nil, err
			}
			return &body[ServicePorts]{ServicePorts{in.ID, portsOf(found.Services)}}, nil
		})
}

// ServicePorts are the known ports of a sandbox.
type ServicePorts struct {
	SandboxID string        `json:"sandbox_id"`
	Ports     []ServicePort `json:"ports"`
}

// ServicePort is a port of a service.
type ServicePort struct {
	Port        int    `json:"port"`
	ServiceName string `json:"service_name"`
	State       string `json:"state" doc:"The state of the service"`
}

// portsOf returns the published ports of services and the ports of their readiness checks, sorted
// by number.
func portsOf(services []pyro.Service) []ServicePort {
	all := []ServicePort{}
	for _, v := range services {
		numbers := []int{}
		for _, p := range v.PublishedPorts {
			numbers = append(numbers, p.GuestPort)
		}
		if n := readyPort(v.Readiness); n > 0 && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
		for _, n := range numbers {
			all = append(all, ServicePort{n, v.ServiceName, string(v.State)})
		}
	}
	slices.SortStableFunc(all, func(a, b ServicePort) int { return a.Port - b.Port })
	return all
}

// readyPort returns the port that a readiness check connects to, or 0 if it has none.
func readyPort(r *pyro.Readiness) int {
	if r == nil {
		return 0
	}
	text := ""
	switch r.Type {
	case pyro.ReadyTCP:
		text = r.Target
		if _, port, err := net.SplitHostPort(r.Target); err == nil {
			text = port
		}
	case pyro.ReadyHTTP:
		u, err := url.Parse(r.Target)
		if err != nil {
			return 0
		}
		if text = u.Port(); text == "" {
			text = "80"
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0
	}
	return n
}
