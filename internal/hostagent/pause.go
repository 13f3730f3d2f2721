package hostagent

import (
	"context"
	"maps"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// pausePatience bounds a pause, which is not given up when whoever asked for it goes: the machine does not give it up either.
const pausePatience = 10 * time.Minute

// PauseSandbox writes a sandbox down, and ends its machine.
func (a *Agent) PauseSandbox(ctx context.Context, req *connect.Request[pb.PauseSandboxRequest]) (*connect.Response[pb.PauseSandboxResponse], error) {
	const op = "pause sandbox"
	s, err := a.find(req.Msg.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	done, err := s.alter(ctx)
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	defer done()
	if err := a.pause(ctx, s); err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	return connect.NewResponse(&pb.PauseSandboxResponse{}), nil
}

// pause pauses a sandbox for who has asked for that, whose change it is. They know of it then: it is none that was paused because of inactivity.
func (a *Agent) pause(ctx context.Context, s *sandbox) error {
	switch status, err := a.status(s); {
	case err != nil:
		return err
	case status == statusPaused:
		return a.set(s, forgetInactivity)
	case status != statusRunning:
		return notRunning(status)
	}
	turned := s.turn(statusRunning)
	defer turned()
	if err := a.set(s, forgetInactivity); err != nil {
		return err
	}
	return a.putDown(context.WithoutCancel(ctx), s)
}

func forgetInactivity(r *record) { r.Inactive = false }

// putDown pauses the machine of a sandbox that is turning.
func (a *Agent) putDown(ctx context.Context, s *sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, pausePatience)
	defer cancel()
	began := time.Now()
	if err := a.options.Machines.Pause(ctx, s.record().WorkspaceID); err != nil {
		return err
	}
	s.rest(true)
	a.options.Log.Info("sandbox paused", "sandbox", s.id(), "ms", time.Since(began).Milliseconds())
	return nil
}

// ResumeSandbox has a sandbox go on that is paused.
func (a *Agent) ResumeSandbox(ctx context.Context, req *connect.Request[pb.ResumeSandboxRequest]) (*connect.Response[pb.ResumeSandboxResponse], error) {
	const op = "resume sandbox"
	m := req.Msg
	s, err := a.find(m.SandboxId)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	if _, err = variables(m.DefaultEnv); err == nil && m.TimeoutSec < 0 {
		err = fault.Newf(fault.Invalid, "timeout_sec is %d: it must not be below 0", m.TimeoutSec)
	}
	if err != nil {
		return nil, fault.Wrap(err, op, s.id())
	}
	done, err := s.alter(ctx)
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

// resume has a sandbox go on, whose change is the caller's, and be another from then on. With an error it is what it was.
func (a *Agent) resume(ctx context.Context, s *sandbox, change func(*record)) error {
	status, err := a.status(s)
	if err != nil {
		return err
	}
	if status != statusRunning && status != statusPaused { // one that runs may be about to be paused again, where a host agent died that had it go on
		return notRunning(status)
	}
	turned := s.turn(status)
	defer turned()
	if status == statusPaused {
		if err := a.admitAgain(s); err != nil {
			return err
		}
	}
	began, before := time.Now(), s.record()
	if err := a.set(s, change); err != nil { // first: what runs has all that was asked for, on a full disk too
		s.rest(status == statusPaused)
		return err
	}
	if err := a.options.Machines.Resume(ctx, before.WorkspaceID); err != nil {
		s.rest(false) // it may have ended: who asks next looks
		if err := a.set(s, func(r *record) { *r = before }); err != nil {
			a.options.Log.Error("note that a sandbox stays as it was", "sandbox", s.id(), "error", err)
		}
		switch fault.KindOf(err) {
		case fault.Corrupt:
			return &fault.Error{Err: err, Hint: "it can't go on: call DestroySandbox, then CreateSandbox"}
		case fault.Precondition:
			return &fault.Error{Err: err, Hint: "put back what was replaced and call ResumeSandbox again; where that can't be, call DestroySandbox, then CreateSandbox"}
		}
		return err
	}
	a.options.Log.Info("sandbox resumed", "sandbox", s.id(), "ms", time.Since(began).Milliseconds())
	s.active()
	if err := a.note(s); err != nil { // what is noted later: it runs either way
		a.options.Log.Error("note that a sandbox runs again", "sandbox", s.id(), "error", err)
	}
	return nil
}

// notRunning says that a sandbox has another state than it has to have.
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
