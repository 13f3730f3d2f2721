package workspace

import (
	"context"
	"errors"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// ServiceState is the state of a service.
type ServiceState string

// The states of services.
const (
	ServiceStarting ServiceState = "starting" // it runs, but is not ready yet.
	ServiceRunning  ServiceState = "running"
	ServiceExited   ServiceState = "exited"  // it ended on its own.
	ServiceStopped  ServiceState = "stopped" // it was stopped, or its machine ended.
	ServiceFailed   ServiceState = "failed"  // it did not become ready, and was stopped.
	ServicePaused   ServiceState = "paused"  // it continues when its workspace is resumed.

	ServiceRestarting ServiceState = "restarting" // its program has ended, and will be started again after a delay.
)

// Service describes a service.
type Service struct {
	store.Service
	State  ServiceState
	Reason string // why the service is stopped or failed; can be empty
}

// serviceNow returns a service with its state, which depends on the record and on the state of the
// workspace.
func serviceNow(s store.Service, of State) Service {
	now := Service{Service: s, Reason: s.Result.Broken}
	switch r := s.Result; {
	case s.EndedAt.IsZero() && of == Paused:
		now.State = ServicePaused
	case s.EndedAt.IsZero() && of != Started:
		now.State, now.Reason = ServiceStopped, store.MachineEnded
	case s.EndedAt.IsZero() && s.Result.Restarts.Waits:
		now.State = ServiceRestarting
	case s.EndedAt.IsZero() && s.ReadyAt.IsZero():
		now.State = ServiceStarting
	case s.EndedAt.IsZero():
		now.State = ServiceRunning
	case r.Failed != "":
		now.State, now.Reason = ServiceFailed, r.Failed
	case r.Stopped || r.Broken != "":
		now.State = ServiceStopped
	default:
		now.State = ServiceExited
	}
	return now
}

// StartService starts a named program in the background, and returns when it is ready. It replaces
// an ended service with the same name and deletes the logs of that service.
func (m *Manager) StartService(ctx context.Context, id, name string, start ServiceStart) (Service, store.Spec, error) {
	for _, err := range []error{remote.CheckServiceName(name), remote.CheckPorts(start.Ports), remote.CheckRestart(start.Restart)} {
		if err != nil {
			return Service{}, store.Spec{}, err
		}
	}
	connection, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Service{}, store.Spec{}, err
	}
	defer connection.Close()
	if start.Command, err = inWorkspace(w.Spec, start.Command); err != nil {
		return Service{}, w.Spec, err
	}
	if err := connection.StartService(ctx, name, start); err != nil {
		return Service{}, w.Spec, err
	}
	s, err := m.service(ctx, id, name)
	return s, w.Spec, err
}

func (m *Manager) service(ctx context.Context, id, name string) (Service, error) {
	state, err := m.machineState(ctx, id) // read before the record, because the end of a service is recorded before the end of its machine
	if err != nil {
		return Service{}, err
	}
	s, err := m.Store.Service(ctx, id, name)
	return serviceNow(s, state), err
}

// machineState returns whether the machine of a workspace is started, paused or stopped.
func (m *Manager) machineState(ctx context.Context, id string) (State, error) {
	if m.folder(id).Alive() {
		return Started, nil
	}
	w, err := m.Store.Workspace(ctx, id)
	if err != nil {
		return Stopped, err
	}
	return m.stateOf(w), nil
}

// Services returns the services that were started since the workspace was created or last reset,
// sorted by name.
func (m *Manager) Services(ctx context.Context, id string) ([]Service, store.Spec, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, store.Spec{}, err
	}
	state, err := m.machineState(ctx, id)
	if err != nil {
		return nil, w.Spec, err
	}
	services, err := m.Store.Services(ctx, id)
	var all []Service
	for _, s := range services {
		all = append(all, serviceNow(s, state))
	}
	return all, w.Spec, err
}

// Service returns one service.
func (m *Manager) Service(ctx context.Context, id, name string) (Service, store.Spec, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return Service{}, store.Spec{}, err
	}
	s, err := m.service(ctx, id, name)
	return s, w.Spec, err
}

// ServiceLog is the kept output of one stream of a service, or only its last lines.
type ServiceLog struct {
	Text    []byte
	Dropped int64 // bytes at the start of the stream that are no longer kept.
	All     bool  // whether Text contains all kept output.
}

// ServiceLogs returns the last lines of a service's output, or all kept output if lines is 0. It
// works even if the service or its workspace is stopped.
func (m *Manager) ServiceLogs(ctx context.Context, id, name string, lines int) (s Service, out, errs ServiceLog, err error) {
	if s, _, err = m.Service(ctx, id, name); err != nil {
		return s, out, errs, err
	}
	folder := m.folder(id).Service(s.Name)
	for path, log := range map[string]*ServiceLog{folder.Stdout(): &out, folder.Stderr(): &errs} {
		if log.Text, log.Dropped, err = program.ReadLogFile(path); err != nil {
			return s, out, errs, fault.Wrap(err, "read the logs of service", name)
		}
		log.All = true
		if lines > 0 {
			log.Text, log.All = program.LastLines(log.Text, lines)
		}
	}
	return s, out, errs, nil
}

// FollowService copies the output of a service until the service ends. Following does not count as
// use, and does not resume a paused workspace. If the service does not run, FollowService copies
// the kept output.
func (m *Manager) FollowService(ctx context.Context, id, name string, to ServiceReader) (Service, store.Spec, error) {
	s, spec, err := m.Service(ctx, id, name)
	if err != nil {
		return s, spec, err
	}
	if s.open() && s.State != ServicePaused {
		end, err := m.followRunning(ctx, id, name, to)
		switch fault.KindOf(err) {
		case "":
			state := Started
			if end.EndedAt.IsZero() {
				state = Paused
			}
			s.Service.EndedAt, s.Service.Result = end.EndedAt, end.Result
			return serviceNow(s.Service, state), spec, nil
		case fault.NotFound, fault.Precondition: // the service has already ended
		default:
			return s, spec, err
		}
	}
	s, out, errs, err := m.ServiceLogs(ctx, id, name, to.Lines)
	if err != nil {
		return s, spec, err
	}
	if to.Lines == 0 && out.Dropped+errs.Dropped > 0 {
		to.Dropped(out.Dropped, errs.Dropped)
	}
	_, printed := to.Out.Write(out.Text)
	_, complained := to.Errs.Write(errs.Text)
	return s, spec, errors.Join(printed, complained)
}

func (m *Manager) followRunning(ctx context.Context, id, name string, to ServiceReader) (remote.ServiceEnd, error) {
	c, err := remote.Watch(ctx, m.folder(id))
	if err != nil {
		return remote.ServiceEnd{}, err
	}
	defer c.Close()
	return c.FollowService(ctx, name, to)
}

// PublishPorts publishes more ports of a running service. If the workspace is paused, it first
// resumes the workspace.
func (m *Manager) PublishPorts(ctx context.Context, id, name string, ports []store.Port) (Service, store.Spec, error) {
	if err := remote.CheckPorts(ports); err != nil {
		return Service{}, store.Spec{}, err
	}
	return m.changePorts(ctx, id, name, func(c *client) error { return c.PublishPorts(ctx, name, ports) })
}

// UnpublishPorts closes published ports of a running service. guests are ports of the machine. If
// the workspace is paused, it first resumes the workspace.
func (m *Manager) UnpublishPorts(ctx context.Context, id, name string, guests []int) (Service, store.Spec, error) {
	return m.changePorts(ctx, id, name, func(c *client) error { return c.UnpublishPorts(ctx, name, guests) })
}

func (m *Manager) changePorts(ctx context.Context, id, name string, change func(*client) error) (Service, store.Spec, error) {
	s, spec, err := m.Service(ctx, id, name)
	if err != nil {
		return s, spec, err
	}
	if !s.open() {
		return s, spec, fault.New(fault.Precondition, "change ports of service", name, "it is %s", s.State).
			WithHint("%s", fault.Act("service_list", "pyro workspace service list %s", id))
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err == nil {
		defer c.Close()
		err = change(c)
	}
	if err != nil {
		return s, spec, err
	}
	s, err = m.service(ctx, id, name)
	return s, spec, err
}

// open reports whether the service has not ended.
func (s Service) open() bool {
	switch s.State {
	case ServiceRunning, ServiceStarting, ServiceRestarting, ServicePaused:
		return true
	}
	return false
}

// StopService stops a service. If the workspace is paused, it first resumes the workspace. It does
// nothing if the service does not run.
func (m *Manager) StopService(ctx context.Context, id, name string) (Service, store.Spec, error) {
	s, spec, err := m.Service(ctx, id, name)
	if err != nil || !s.open() {
		return s, spec, err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err == nil {
		defer c.Close()
		err = c.StopService(ctx, name)
	}
	if err != nil && fault.KindOf(err) != fault.Precondition { // otherwise the service has ended with its machine
		return s, spec, err
	}
	s, err = m.service(ctx, id, name)
	return s, spec, err
}
