package pyro

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// The defaults of services.
const (
	DefaultReadyTimeoutSeconds = 30
	DefaultReadyIntervalMS     = 500
	DefaultTailLines           = 200
)

// ServiceLogBytes is about how much of each stream of a service is kept.
const ServiceLogBytes = remote.ServiceLogBytes

// ServiceState says what a service does.
type ServiceState string

// The states.
const (
	ServiceStarting = ServiceState(workspace.ServiceStarting) // it runs, and is not ready yet
	ServiceRunning  = ServiceState(workspace.ServiceRunning)
	ServiceExited   = ServiceState(workspace.ServiceExited)  // it ended by itself
	ServiceStopped  = ServiceState(workspace.ServiceStopped) // it was stopped, or its machine ended
	ServiceFailed   = ServiceState(workspace.ServiceFailed)  // it did not become ready, and was stopped
	ServicePaused   = ServiceState(workspace.ServicePaused)  // it goes on with its workspace
)

// ReadinessType is how it is found out that a service is ready.
type ReadinessType string

// The types, and what the target of each is.
const (
	ReadyFile    ReadinessType = "file"    // a path is there: absolute, or relative to /workspace
	ReadyTCP     ReadinessType = "tcp"     // a connection can be made: PORT or HOST:PORT, seen from the workspace; HOST is an address or localhost
	ReadyHTTP    ReadinessType = "http"    // a URL is answered with a status from 200 to 399, seen from the workspace; its host likewise
	ReadyCommand ReadinessType = "command" // a line for the guest's /bin/sh ends with exit code 0
)

// Readiness is when a service is ready.
type Readiness struct {
	Type   ReadinessType `json:"type"`
	Target string        `json:"target"`
}

// Service is a program that was started in the background under a name, as it is now. It is never started again by itself.
type Service struct {
	WorkspaceID   string        `json:"workspace_id"`
	ServiceName   string        `json:"service_name"`
	State         ServiceState  `json:"state"`
	StateReason   string        `json:"state_reason,omitempty"` // why it failed or is stopped, where that is worth telling
	Argv          []string      `json:"argv"`
	Cwd           string        `json:"cwd"`
	ExecutionMode ExecutionMode `json:"execution_mode"`
	Readiness     *Readiness    `json:"readiness"`  // null: it was ready when it ran
	SecretNames   []string      `json:"secret_env"` // the secrets that it was given

	PublishedPorts []PublishedPort `json:"published_ports"` // while it runs
	StartedAt      time.Time       `json:"started_at"`
	ReadyAt        *time.Time      `json:"ready_at"`  // null: it is not, or was not
	EndedAt        *time.Time      `json:"ended_at"`  // null while it runs, or where nobody saw its end
	ExitCode       *int            `json:"exit_code"` // null while it runs, or where nobody saw its end
	OutOfMemory    bool            `json:"out_of_memory,omitempty"`
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
		code := s.Result.ExitCode
		r.ExitCode = &code
	}
	return r
}

// StartServiceRequest says what service to start. WorkspaceID, ServiceName and one of Argv and Command have to be set.
type StartServiceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ServiceName string `json:"service_name"` // 1 to 64 letters, digits, dots, dashes and underscores

	Argv      []string          `json:"argv,omitempty"`       // the program and its arguments, as they are
	Command   string            `json:"command,omitempty"`    // or a line for the guest's /bin/sh -lc
	Cwd       string            `json:"cwd,omitempty"`        // absolute, or relative to /workspace, which is the default
	Env       map[string]string `json:"env,omitempty"`        // added to that of the environment
	SecretEnv map[string]string `json:"secret_env,omitempty"` // secrets of the workspace, and the environment variables that they are in

	Readiness           *Readiness `json:"readiness,omitempty"`             // nil: it is ready when it runs
	ReadyTimeoutSeconds int        `json:"ready_timeout_seconds,omitempty"` // after which it is stopped where it is not ready; default DefaultReadyTimeoutSeconds
	ReadyIntervalMS     int        `json:"ready_interval_ms,omitempty"`     // between two looks at most; default DefaultReadyIntervalMS

	PublishedPorts []PublishedPort `json:"published_ports,omitempty"` // TCP ports, with NetworkPublished, as long as it runs
}

// StartService starts a program in the background in a workspace that runs, and returns when it is ready. It goes on until it is stopped, ends by itself, or the
// workspace is stopped or reset. Where it does not become ready it is stopped, and the error tells what it printed last. A service of the same name that has ended
// is replaced.
func (p *Pyro) StartService(ctx context.Context, req StartServiceRequest) (*Service, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("service_name", req.ServiceName); err != nil {
		return nil, err
	}
	argv, err := program(req.Argv, req.Command)
	if err != nil {
		return nil, err
	}
	if err := checkStrings(argv, req.Env); err != nil {
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
	s, spec, err := p.workspaces.StartService(ctx, req.WorkspaceID, req.ServiceName, workspace.Command{
		Argv: argv, Cwd: inWorkspace(req.Cwd), Env: environmentOf(req.Env), Secrets: secretEnv(req.SecretEnv),
	}, ready, portsOf(req.PublishedPorts))
	return serviceOf(ctx, req.WorkspaceID, s, spec, err)
}

// readiness checks what is waited for.
func (req *StartServiceRequest) readiness() (*remote.Readiness, error) {
	if req.Readiness == nil {
		return nil, nil
	}
	r := &remote.Readiness{
		Readiness: client.Readiness{Interval: time.Duration(req.ReadyIntervalMS) * time.Millisecond}, Timeout: time.Duration(req.ReadyTimeoutSeconds) * time.Second,
	}
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
			return nil, invalid("%q is not of the form http://HOST:PORT/PATH; for anything else there are tcp and command", target)
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
		return nil, because(ctx, err)
	}
	r := newService(id, spec, s)
	return &r, nil
}

// WorkspaceServices are those of a workspace.
type WorkspaceServices struct {
	WorkspaceID  string    `json:"workspace_id"`
	Count        int       `json:"count"`
	RunningCount int       `json:"running_count"`
	Services     []Service `json:"services"` // sorted by name
}

// ListServices gives the services that were started since the workspace was created or last reset.
func (p *Pyro) ListServices(ctx context.Context, id string) (*WorkspaceServices, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	all, spec, err := p.workspaces.Services(ctx, id)
	if err != nil {
		return nil, because(ctx, err)
	}
	r := &WorkspaceServices{WorkspaceID: id, Count: len(all), Services: []Service{}}
	for _, s := range all {
		if s.State == workspace.ServiceRunning || s.State == workspace.ServiceStarting {
			r.RunningCount++
		}
		r.Services = append(r.Services, newService(id, spec, s))
	}
	return r, nil
}

// StatusService tells what a service is now.
func (p *Pyro) StatusService(ctx context.Context, id, name string) (*Service, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, spec, err := p.workspaces.Service(ctx, id, name)
	return serviceOf(ctx, id, s, spec, err)
}

// LogsServiceRequest says what to read of what a service has printed.
type LogsServiceRequest struct {
	WorkspaceID string `json:"workspace_id"`
	ServiceName string `json:"service_name"`
	TailLines   int    `json:"tail_lines,omitempty"` // the last so many of each stream; default DefaultTailLines
	All         bool   `json:"all,omitempty"`        // all that is kept, instead
}

// ServiceLogs is what a service has printed.
type ServiceLogs struct {
	WorkspaceID    string       `json:"workspace_id"`
	ServiceName    string       `json:"service_name"`
	State          ServiceState `json:"state"`
	TailLines      *int         `json:"tail_lines"` // null: all that is kept
	Stdout         string       `json:"stdout"`
	Stderr         string       `json:"stderr"`
	StdoutEncoding Encoding     `json:"stdout_encoding"`
	StderrEncoding Encoding     `json:"stderr_encoding"`
	Truncated      bool         `json:"truncated"`     // there are more lines, or bytes were dropped
	DroppedBytes   int64        `json:"dropped_bytes"` // of both streams, which are not kept any more
}

// Output gives the bytes of the two streams as the service wrote them.
func (l *ServiceLogs) Output() (stdout, stderr []byte) {
	return l.StdoutEncoding.decode(l.Stdout), l.StderrEncoding.decode(l.Stderr)
}

// LogsService gives what a service has printed, of each stream about the last ServiceLogBytes. Neither it nor its workspace need run.
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
		return nil, because(ctx, err)
	}
	r.State = ServiceState(s.State)
	r.Stdout, r.StdoutEncoding = encode(out.Text)
	r.Stderr, r.StderrEncoding = encode(errs.Text)
	r.DroppedBytes = out.Dropped + errs.Dropped
	r.Truncated = !out.All || !errs.All || r.DroppedBytes > 0
	return r, nil
}

// StopService ends a service with all that it started: it is asked to, and killed when it has not ended after 5 s. One that has ended is left as it is.
func (p *Pyro) StopService(ctx context.Context, id, name string) (*Service, error) {
	if err := p.named(ctx, &id); err != nil {
		return nil, err
	}
	s, spec, err := p.workspaces.StopService(ctx, id, name)
	return serviceOf(ctx, id, s, spec, err)
}
