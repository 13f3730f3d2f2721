package workspace

import (
	"context"
	"errors"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// ServiceState says what a service does.
type ServiceState string

// The states.
const (
	ServiceStarting ServiceState = "starting" // it runs, and is not ready yet
	ServiceRunning  ServiceState = "running"
	ServiceExited   ServiceState = "exited"  // it ended by itself
	ServiceStopped  ServiceState = "stopped" // it was stopped, or its machine ended
	ServiceFailed   ServiceState = "failed"  // it did not become ready, and was stopped
	ServicePaused   ServiceState = "paused"  // it goes on with its workspace
)

// Service is a program that was started in the background, as it is now.
type Service struct {
	store.Service
	State  ServiceState
	Reason string // why it is stopped or failed, where that is worth telling
}

// serviceNow tells what a service is, of a workspace in a state.
func serviceNow(s store.Service, of State) Service {
	now := Service{Service: s, Reason: s.Result.Broken}
	switch r := s.Result; {
	case s.EndedAt.IsZero() && of == Paused:
		now.State = ServicePaused
	case s.EndedAt.IsZero() && of != Started:
		now.State, now.Reason = ServiceStopped, store.MachineEnded
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

// StartService starts a program in the background under a name, and gives what it is when it is ready: where ready is nil, when it runs. One of its name that has
// ended is replaced, with its logs.
func (m *Manager) StartService(ctx context.Context, id, name string, c Command, ready *remote.Readiness, ports []store.Port) (Service, store.Spec, error) {
	if err := remote.CheckServiceName(name); err != nil {
		return Service{}, store.Spec{}, err
	}
	if err := remote.CheckPorts(ports); err != nil {
		return Service{}, store.Spec{}, err
	}
	connection, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Service{}, store.Spec{}, err
	}
	defer connection.Close()
	if err := connection.StartService(ctx, name, c.in(w.Spec), ready, ports, c.Secrets...); err != nil {
		return Service{}, w.Spec, err
	}
	s, err := m.service(ctx, id, name)
	return s, w.Spec, err
}

func (m *Manager) service(ctx context.Context, id, name string) (Service, error) {
	state, err := m.machineState(ctx, id) // before the record, in which the end comes before that of the machine
	if err != nil {
		return Service{}, err
	}
	s, err := m.Store.Service(ctx, id, name)
	return serviceNow(s, state), err
}

// machineState tells whether a workspace is started, paused or neither.
func (m *Manager) machineState(ctx context.Context, id string) (State, error) {
	if m.folder(id).Alive() {
		return Started, nil
	}
	w, err := m.Store.Workspace(ctx, id)
	if err == nil && w.Disks.Memory != "" {
		return Paused, nil
	}
	return Stopped, err
}

// Services gives those that were started since the workspace was created or last reset, sorted by name.
func (m *Manager) Services(ctx context.Context, id string) ([]Service, store.Spec, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, store.Spec{}, err
	}
	state, err := m.machineState(ctx, id)
	if err != nil {
		return nil, w.Spec, err
	}
	kept, err := m.Store.Services(ctx, id)
	var all []Service
	for _, s := range kept {
		all = append(all, serviceNow(s, state))
	}
	return all, w.Spec, err
}

// Service gives one.
func (m *Manager) Service(ctx context.Context, id, name string) (Service, store.Spec, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return Service{}, store.Spec{}, err
	}
	s, err := m.service(ctx, id, name)
	return s, w.Spec, err
}

// ServiceLog is what is kept of one stream of a service.
type ServiceLog struct {
	Text    []byte
	Dropped int64 // bytes before that were written and are not kept
	All     bool  // Text is all that is kept
}

// ServiceLogs gives the last lines of what a service has printed, or with lines 0 all that is kept. It need not run, nor its workspace.
func (m *Manager) ServiceLogs(ctx context.Context, id, name string, lines int) (s Service, out, errs ServiceLog, err error) {
	if s, _, err = m.Service(ctx, id, name); err != nil {
		return s, out, errs, err
	}
	folder := m.folder(id).Service(s.Name)
	for path, log := range map[string]*ServiceLog{folder.Stdout(): &out, folder.Stderr(): &errs} {
		if log.Text, log.Dropped, err = transcript.ReadFile(path); err != nil {
			return s, out, errs, fault.Wrap(err, "read the logs of service", name)
		}
		log.All = true
		if lines > 0 {
			log.Text, log.All = transcript.LastLines(log.Text, lines)
		}
	}
	return s, out, errs, nil
}

// FollowService passes on what a service has printed, and what it prints, to its end. It does not use the workspace: one that is paused
// stays so, and one that nobody else uses is paused. Of a service that does not run, what is kept is passed on.
func (m *Manager) FollowService(ctx context.Context, id, name string, to remote.ServiceReader) (Service, store.Spec, error) {
	s, spec, err := m.Service(ctx, id, name)
	if err != nil {
		return s, spec, err
	}
	if s.State == ServiceStarting || s.State == ServiceRunning {
		end, err := m.followRunning(ctx, id, name, to)
		switch fault.KindOf(err) {
		case "":
			state := Started
			if end.EndedAt.IsZero() {
				state = Paused
			}
			s.Service.EndedAt, s.Service.Result = end.EndedAt, end.Result
			return serviceNow(s.Service, state), spec, nil
		case fault.NotFound, fault.Precondition: // it has ended meanwhile
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

func (m *Manager) followRunning(ctx context.Context, id, name string, to remote.ServiceReader) (remote.ServiceEnd, error) {
	c, err := remote.Watch(ctx, m.folder(id))
	if err != nil {
		return remote.ServiceEnd{}, err
	}
	defer c.Close()
	return c.FollowService(ctx, name, to)
}

// StopService stops a service, for which a workspace that is paused goes on. It is no error where it does not run.
func (m *Manager) StopService(ctx context.Context, id, name string) (Service, store.Spec, error) {
	s, spec, err := m.Service(ctx, id, name)
	if err != nil || s.State != ServiceRunning && s.State != ServiceStarting && s.State != ServicePaused {
		return s, spec, err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err == nil {
		defer c.Close()
		err = c.StopService(ctx, name)
	}
	if err != nil && fault.KindOf(err) != fault.Precondition { // the machine has ended, and with it the service
		return s, spec, err
	}
	s, err = m.service(ctx, id, name)
	return s, spec, err
}
