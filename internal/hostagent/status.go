package hostagent

import (
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// The states of a sandbox.
const (
	statusPending = "pending" // the sandbox is being created
	statusRunning = "running"
	statusPaused  = "paused"
	statusStopped = "stopped" // the machine has ended
)

// status returns the state of a sandbox. During a pause or resume it returns the previous state. If
// the state can't be read, it fails with Unavailable: a sandbox that might be paused must not be
// reported as stopped.
func (a *Agent) status(s *sandbox) (string, error) {
	s.mu.Lock()
	id, transition, shown, paused := s.rec.WorkspaceID, s.transition != nil, s.statusDuring, s.paused
	s.mu.Unlock()
	switch {
	case id == "":
		return statusPending, nil
	case transition:
		return shown, nil
	case a.options.Machines.Running(id):
		if paused { // another process resumed the machine
			s.setPaused(false)
			s.watchers.changed(s.id())
		}
		return statusRunning, nil
	case paused:
		return statusPaused, nil
	}
	paused, err := a.options.Machines.Paused(a.ctx, id)
	if err != nil {
		return "", &fault.Error{Op: "read the state of sandbox", Subject: s.id(), Kind: fault.Unavailable, Err: err, Hint: "try again"}
	}
	if paused {
		s.setPaused(true)
		return statusPaused, nil
	}
	return statusStopped, nil
}

// statusTTL is how long cachedStatus caches a state. The cache helps when many clients list many
// sandboxes.
const statusTTL = 20 * time.Millisecond

// cachedStatus returns the state of a sandbox. If the machine ends by itself, cachedStatus can
// still return running for up to statusTTL.
func (a *Agent) cachedStatus(s *sandbox) (string, error) {
	s.mu.Lock()
	fresh := s.transition == nil && time.Since(s.seenRunning) < statusTTL
	s.mu.Unlock()
	if fresh {
		return statusRunning, nil
	}
	began := time.Now()
	status, err := a.status(s)
	s.mu.Lock()
	if s.transition == nil && status == statusRunning && began.After(s.transitionEnd) {
		s.seenRunning = began
	}
	s.mu.Unlock()
	return status, err
}

// needRunning fails with Precondition if a sandbox does not run.
func (a *Agent) needRunning(s *sandbox) error {
	status, err := a.status(s)
	if err == nil && status != statusRunning {
		err = notRunning(status)
	}
	return err
}
