package pyro

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Defaults of services.
const (
	DefaultReadyTimeoutSeconds = 30
	DefaultReadyIntervalMS     = 500
	DefaultTailLines           = 200
)

// ServiceLogBytes is the approximate number of bytes that are stored per output stream of a
// service.
const ServiceLogBytes = workspace.ServiceLogBytes

// ServiceState is the state of a service.
type ServiceState string

// The states of services.
const (
	ServiceStarting = ServiceState(workspace.ServiceStarting) // it runs but is not ready yet
	ServiceRunning  = ServiceState(workspace.ServiceRunning)
	ServiceExited   = ServiceState(workspace.ServiceExited)  // it ended by itself.
	ServiceStopped  = ServiceState(workspace.ServiceStopped) // it was stopped, or its machine ended.
	ServiceFailed   = ServiceState(workspace.ServiceFailed)  // it did not become ready, and was stopped.
	ServicePaused   = ServiceState(workspace.ServicePaused)  // its workspace is paused; it continues when the workspace resumes.

	ServiceRestarting = ServiceState(workspace.ServiceRestarting) // its program has ended, and will be started again after a delay
)

// RestartPolicy controls whether pyro restarts a service after its program has ended.
type RestartPolicy string

// The policies.
const (
	RestartNo        = RestartPolicy(store.RestartNo)
	RestartOnFailure = RestartPolicy(store.RestartOnFailure) // if its exit code is not 0
	RestartAlways    = RestartPolicy(store.RestartAlways)
)

// RestartPolicies are all policies.
var RestartPolicies = []RestartPolicy{RestartNo, RestartOnFailure, RestartAlways}

// ServiceRestarts describes the restarts of a service.
type ServiceRestarts struct {
	Policy       RestartPolicy `json:"policy"`
	Count        int           `json:"count"`
	LastExitCode *int          `json:"last_exit_code"` // exit code of the last run that has ended; nil if none has
	LastEndedAt  *time.Time    `json:"last_ended_at"`  // when that run ended
}

// ReadinessType is a kind of readiness check.
type ReadinessType string

// The types of checks, with their targets.
const (
	ReadyFile    ReadinessType = "file"    // a path is created or changed after the start: absolute, or relative to /workspace
	ReadyTCP     ReadinessType = "tcp"     // a process of the service accepts connections at a port: PORT or HOST:PORT, with an address or localhost as HOST.
	ReadyHTTP    ReadinessType = "http"    // a URL in the workspace has a status from 200 to 399; its host is an address or localhost.
	ReadyCommand ReadinessType = "command" // a command line for /bin/sh exits with 0
)

// Readiness is the condition for a service to be ready.
type Readiness struct {
	Type   ReadinessType `json:"type"`
	Target string        `json:"target"`
}

// Service is a named background program.
type Service struct {
	WorkspaceID   string        `json:"workspace_id"`
	ServiceName   string        `json:"service_name"`
	State         ServiceState  `json:"state"`
	StateReason   string        `json:"state_reason,omitempty"` // why it failed or was stopped, if there are details
	Argv          []string      `json:"argv"`
	Cwd           string        `json:"cwd"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	Readiness     *Readiness    `json:"readiness"`  // nil if it counted as ready from its start
	SecretNames   []string      `json:"secret_env"` // names of the secrets that it uses

	PublishedPorts []PublishedPort `json:"published_ports"` // empty unless it runs
	StartedAt      time.Time       `json:"started_at"`
	ReadyAt        *time.Time      `json:"ready_at"`  // nil if it was never ready.
	EndedAt        *time.Time      `json:"ended_at"`  // nil if it runs or if its end was not observed.
	ExitCode       *int            `json:"exit_code"` // nil if it runs or if its end was not observed.
	OutOfMemory    bool            `json:"out_of_memory,omitempty"`

	Restarts *ServiceRestarts `json:"restarts,omitempty"` // nil: pyro never restarts it
}

func newService(id string, spec store.Spec, s workspace.Service) Service {
	r := Service{
		WorkspaceID: id, ServiceName: s.Name, State: ServiceState(s.State), StateReason: s.Reason, Argv: s.Spec.Argv, Cwd: s.Spec.Cwd,
		SecretNames: s.Spec.Secrets, StartedAt: s.StartedAt, ReadyAt: moment(s.ReadyAt), EndedAt: moment(s.EndedAt), OutOfMemory: s.Result.OutOfMemory,
	}
	r.PublishedPorts = []PublishedPort{}
	if s.EndedAt.IsZero() && s.State != workspace.ServiceStopped && s.State != workspace.ServicePaused {
		r.PublishedPorts = publishedPorts(s.Spec.Ports)
	}
	r.ExecutionMode, _, _ = modeOf(spec)
	if r.SecretNames == nil {
		r.SecretNames = []string{}
	}
	if ready := s.Spec.Readiness; ready != nil {
		r.Readiness = &Readiness{ReadinessType(ready.Type), ready.Target}
	}
	if !s.EndedAt.IsZero() && s.Result.Broken == "" && s.Result.NotRun == "" {
		code := s.Result.Code
		r.ExitCode = &code
	}
	if policy := s.Spec.Restart; policy != "" {
		r.Restarts = &ServiceRestarts{Policy: RestartPolicy(policy), Count: s.Result.Restarts.Count, LastEndedAt: moment(s.Result.Restarts.At)}
		if r.Restarts.LastEndedAt != nil {
			r.Restarts.LastExitCode = new(s.Result.Restarts.Exit.Code)
		}
	}
	return r
}

// StartServiceRequest describes a new service. WorkspaceID and ServiceName are required, and either
// Argv or Command.
type StartServiceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ServiceName string `json:"service_name"` // 1 to 64 letters, digits, dots, dashes and underscores

	Argv      []string          `json:"argv,omitempty"`       // the program and its arguments.
	Command   string            `json:"command,omitempty"`    // instead of Argv: a command line for /bin/sh -lc.
	Cwd       string            `json:"cwd,omitempty"`        // working directory: absolute, or relative to /workspace; default /workspace.
	User      string            `json:"user,omitempty"`       // name or number, optionally with :group; default the environment's user.
	Env       map[string]string `json:"env,omitempty"`        // extra environment variables.
	SecretEnv map[string]string `json:"secret_env,omitempty"` // maps secrets of the workspace to the environment variables that get their values

	Readiness           *Readiness `json:"readiness,omitempty"`             // nil: the service counts as ready from its start.
	ReadyTimeoutSeconds int        `json:"ready_timeout_seconds,omitempty"` // maximum time until it is ready, after which it is stopped; default DefaultReadyTimeoutSeconds.
	ReadyIntervalMS     int        `json:"ready_interval_ms,omitempty"`     // maximum time between two checks; default DefaultReadyIntervalMS

	PublishedPorts []PublishedPort `json:"published_ports,omitempty"` // TCP ports to publish while it runs; requires NetworkPublished

	Restart RestartPolicy `json:"restart,omitempty"` // when its program is started again; default RestartNo
}

// StartService starts a background program in a running workspace and returns when the program is
// ready. The service runs until it ends or is stopped, or until the workspace is stopped or reset.
// If the service does not become ready, StartService stops it and returns an error with its last
// output. The new service replaces an ended service with the same name.
//
// With a restart policy, pyro starts the program again after it has ended. A program that ends
// before it is ready is not started again. The delay before a restart doubles from 0.1 s to 30 s,
// and is 0.1 s again after a run of 10 s. StopService ends the restarts.
func (p *Pyro) StartService(ctx context.Context, req StartServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("service_name", req.ServiceName); err != nil {
		return nil, err
	}
	argv, err := argvOf(req.Argv, req.Command)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkStrings(argv, req.Env), checkUser(req.User)); err != nil {
		return nil, err
	}
	if err := checkSecretEnv(req.SecretEnv, req.Env); err != nil {
		return nil, err
	}
	if err := completeNumber("ready_timeout_seconds", &req.ReadyTimeoutSeconds, DefaultReadyTimeoutSeconds, 1, 3600); err != nil {
		return nil, err
	}
	if err := completeNumber("ready_interval_ms", &req.ReadyIntervalMS, DefaultReadyIntervalMS, 1, 60_000); err != nil {
		return nil, err
	}
	ready, err := req.readiness()
	if err != nil {
		return nil, err
	}
	s, spec, err := p.workspaces.StartService(ctx, req.WorkspaceID, req.ServiceName, workspace.ServiceStart{
		Command: program.Command{Argv: argv, User: req.User, Cwd: inWorkspace(req.Cwd), Env: program.Environ(req.Env), Secrets: secretEnv(req.SecretEnv)},
		Ready:   ready, Ports: portsOf(req.PublishedPorts), Restart: store.RestartPolicy(req.Restart),
	})
	return serviceOf(ctx, req.WorkspaceID, s, spec, err)
}

// readiness checks the readiness of a request and converts it.
func (req *StartServiceRequest) readiness() (*workspace.Readiness, error) {
	if req.Readiness == nil {
		return nil, nil
	}
	r := &workspace.Readiness{Timeout: time.Duration(req.ReadyTimeoutSeconds) * time.Second}
	r.Interval = time.Duration(req.ReadyIntervalMS) * time.Millisecond
	target := req.Readiness.Target
	if target == "" || strings.ContainsRune(target, 0) || len(target) > 4096 {
		return nil, invalid("readiness of type %q needs a target", req.Readiness.Type)
	}
	switch req.Readiness.Type {
	case ReadyFile:
		r.File = inWorkspace(target)
	case ReadyTCP:
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			host, port = "", target
		}
		if host == "" {
			host = "127.0.0.1"
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, invalid("%q is not PORT or HOST:PORT", target)
		}
		r.TCP = net.JoinHostPort(host, port)
	case ReadyHTTP:
		if !strings.HasPrefix(target, "http://") {
			return nil, invalid("%q is not of the form http://HOST:PORT/PATH; use tcp or command for other checks", target)
		}
		r.HTTP = target
	case ReadyCommand:
		r.Command = target
	default:
		return nil, invalid("readiness is of type %q: it must be file, tcp, http or command", req.Readiness.Type)
	}
	return r, nil
}

func serviceOf(ctx context.Context, id string, s workspace.Service, spec store.Spec, err error) (*Service, error) {
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r := newService(id, spec, s)
	return &r, nil
}

// WorkspaceServices are the services of a workspace.
type WorkspaceServices struct {
	WorkspaceID  string    `json:"workspace_id"`
	Count        int       `json:"count"`
	RunningCount int       `json:"running_count"`
	Services     []Service `json:"services"` // sorted by name
}

// ListServices returns the services that were started since the workspace was created or last
// reset.
func (p *Pyro) ListServices(ctx context.Context, id string) (*WorkspaceServices, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	all, spec, err := p.workspaces.Services(ctx, id)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r := &WorkspaceServices{WorkspaceID: id, Count: len(all), Services: []Service{}}
	for _, s := range all {
		switch s.State {
		case workspace.ServiceRunning, workspace.ServiceStarting, workspace.ServiceRestarting:
			r.RunningCount++
		}
		r.Services = append(r.Services, newService(id, spec, s))
	}
	return r, nil
}

// StatusService describes a service.
func (p *Pyro) StatusService(ctx context.Context, id, name string) (*Service, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, spec, err := p.workspaces.Service(ctx, id, name)
	return serviceOf(ctx, id, s, spec, err)
}

// LogsServiceRequest contains the parameters of [Pyro.LogsService].
type LogsServiceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ServiceName string `json:"service_name"`
	TailLines   int    `json:"tail_lines,omitempty"` // the number of last lines of each stream; default DefaultTailLines
	All         bool   `json:"all,omitempty"`        // return all stored output instead
}

// ServiceLogs is the output of a service.
type ServiceLogs struct {
	WorkspaceID    string       `json:"workspace_id"`
	ServiceName    string       `json:"service_name"`
	State          ServiceState `json:"state"`
	TailLines      *int         `json:"tail_lines"` // nil: all stored output
	Stdout         string       `json:"stdout"`
	Stderr         string       `json:"stderr"`
	StdoutEncoding Encoding     `json:"stdout_encoding"`
	StderrEncoding Encoding     `json:"stderr_encoding"`
	Truncated      bool         `json:"truncated"`     // there are more lines, or bytes were dropped
	DroppedBytes   int64        `json:"dropped_bytes"` // bytes of both streams that are no longer stored
}

// Output returns the bytes of the two streams as the service wrote them.
func (l *ServiceLogs) Output() (stdout, stderr []byte) {
	return l.StdoutEncoding.decode(l.Stdout), l.StderrEncoding.decode(l.Stderr)
}

// LogsService returns the last output of a service, at most about ServiceLogBytes of each stream.
// It also works if the service or its workspace is stopped.
func (p *Pyro) LogsService(ctx context.Context, req LogsServiceRequest) (*ServiceLogs, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := completeNumber("tail_lines", &req.TailLines, DefaultTailLines, 1, 1<<30); err != nil {
		return nil, err
	}
	r := &ServiceLogs{WorkspaceID: req.WorkspaceID, ServiceName: req.ServiceName}
	lines := 0
	if !req.All {
		lines = req.TailLines
		r.TailLines = &lines
	}
	s, out, errs, err := p.workspaces.ServiceLogs(ctx, req.WorkspaceID, req.ServiceName, lines)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	r.State = ServiceState(s.State)
	r.Stdout, r.StdoutEncoding = encode(out.Text)
	r.Stderr, r.StderrEncoding = encode(errs.Text)
	r.DroppedBytes = out.Dropped + errs.Dropped
	r.Truncated = !out.All || !errs.All || r.DroppedBytes > 0
	return r, nil
}

// StopService ends a service with all processes that it started. It first sends SIGTERM, and after
// 5 seconds it kills the processes that still run. It does nothing if the service has ended.
func (p *Pyro) StopService(ctx context.Context, id, name string) (*Service, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, spec, err := p.workspaces.StopService(ctx, id, name)
	return serviceOf(ctx, id, s, spec, err)
}
