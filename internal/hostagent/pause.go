package hostagent

import (
	"context"
	"maps"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/program"
)

// pauseTimeout is the maximum duration of a pause. The pause continues even if the client cancels
// the call, because the machine can't cancel a pause either.
const pauseTimeout = 10 * time.Minute

// PauseSandbox saves a sandbox to disk and stops its machine.
func (a *Agent) PauseSandbox(ctx context.Context, req *connect.Request[pb.PauseSandboxRequest]) (*connect.Response[pb.PauseSandboxResponse], error) {
	const op = "pause sandbox"
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	done, err := s.lockExisting(ctx)
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	defer done()
	if err := a.pause(ctx, s); err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	return connect.NewResponse(&pb.PauseSandboxResponse{}), nil
}

// pause pauses a sandbox because a client has requested it. The caller must hold the change lock.
// Such a pause is not reported as automatic, even if the sandbox was already paused automatically.
func (a *Agent) pause(ctx context.Context, s *sandbox) error {
	switch status, err := a.status(s); {
	case err != nil:
		return err
	case status == statusPaused:
		return a.set(s, forgetInactivity)
	case status != statusRunning:
		return notRunning(status)
	}
	endTransition := s.beginTransition(statusRunning)
	defer endTransition()
	if err := a.set(s, forgetInactivity); err != nil {
		return err
	}
	return a.pauseMachine(context.WithoutCancel(ctx), s)
}

func forgetInactivity(r *record) { r.Inactive = false }

// pauseMachine pauses the machine of a sandbox. The caller must have begun a transition.
func (a *Agent) pauseMachine(ctx context.Context, s *sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	began := time.Now()
	s.measureSent(ctx)
	if err := a.options.Machines.Pause(ctx, s.record().WorkspaceID); err != nil {
		return err
	}
	s.setPaused(true)
	a.options.Log.Info("sandbox paused", "sandbox", s.id(), "ms", time.Since(began).Milliseconds())
	return nil
}

// ResumeSandbox resumes a paused sandbox.
func (a *Agent) ResumeSandbox(ctx context.Context, req *connect.Request[pb.ResumeSandboxRequest]) (*connect.Response[pb.ResumeSandboxResponse], error) {
	const op = "resume sandbox"
	m := req.Msg
	s, err := a.find(m.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	if err = program.CheckEnv(m.DefaultEnv, maxEnvironment); err == nil && m.TimeoutSec < 0 {
		err = fault.Newf(fault.Invalid, "timeout_sec is %d: it must be at least 0", m.TimeoutSec)
	}
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	done, err := s.lockExisting(ctx)
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	defer done()
	err = a.resume(ctx, s, func(r *record) {
		r.TimeoutSec = int(m.TimeoutSec)
		if m.DefaultUser != "" {
			r.DefaultUser = m.DefaultUser
		}
		if len(m.DefaultEnv) > 0 {
			r.DefaultEnv = maps.Clone(m.DefaultEnv)
		}
	})
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	return connect.NewResponse(&pb.ResumeSandboxResponse{SandboxId: s.id(), Status: statusRunning, Metadata: metadataOf(s.record())}), nil
}

// resume applies a change to the record of a sandbox and resumes the sandbox. The caller must hold
// the change lock. If resume fails, it restores the record, and the sandbox stays paused.
func (a *Agent) resume(ctx context.Context, s *sandbox, change func(*record)) error {
	status, err := a.status(s)
	if err != nil {
		return err
	}
	// Machines.Resume is called for a running sandbox too. If a host agent died while it resumed
	// the machine, the machine may be about to be paused again.
	if status != statusRunning && status != statusPaused {
		return notRunning(status)
	}
	endTransition := s.beginTransition(status)
	defer endTransition()
	if status == statusPaused {
		if err := a.readmit(s); err != nil {
			return err
		}
	}
	began, before := time.Now(), s.record()
	if err := a.set(s, change); err != nil { // before the resume, so that on a full disk nothing changes
		s.setPaused(status == statusPaused)
		return err
	}
	if err := a.options.Machines.Resume(ctx, before.WorkspaceID); err != nil {
		s.setPaused(false) // the machine may have ended, so status must check it
		if err := a.set(s, func(r *record) { *r = before }); err != nil {
			a.options.Log.Error("restore the record of a sandbox", "sandbox", s.id(), "error", err)
		}
		keep := "pyro workspace stop " + before.WorkspaceID + " && pyro workspace start " + before.WorkspaceID + " on the host, which keeps the files of /workspace"
		switch fault.KindOf(err) {
		case fault.Corrupt:
			return &fault.Error{Err: err, Hint: keep}
		case fault.Precondition:
			return &fault.Error{Err: err, Hint: "put back the replaced programs and call ResumeSandbox again, or " + keep}
		}
		return err
	}
	a.options.Log.Info("sandbox resumed", "sandbox", s.id(), "ms", time.Since(began).Milliseconds())
	s.markResumed()
	a.awaitEnd(s)
	if err := a.save(s); err != nil { // saved again later; the sandbox runs in any case
		a.options.Log.Error("save the record of a resumed sandbox", "sandbox", s.id(), "error", err)
	}
	return nil
}

// notRunning returns an error for a sandbox that is not in the state running.
func notRunning(status string) error {
	hint := "call DestroySandbox, then CreateSandbox"
	switch status {
	case statusPaused:
		hint = "call ResumeSandbox"
	case statusPending:
		hint = "wait until CreateSandbox has returned"
	}
	return fault.Newf(fault.Precondition, "the sandbox is %s", status).WithHint("%s", hint)
}
