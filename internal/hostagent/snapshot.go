package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// templateTimeout is the maximum time to make a template. The work continues even if the client
// cancels the call.
const templateTimeout = 15 * time.Minute

// CreateSnapshot turns a sandbox into a template that includes the processes.
func (a *Agent) CreateSnapshot(ctx context.Context, req *connect.Request[pb.CreateSnapshotRequest]) (*connect.Response[pb.CreateSnapshotResponse], error) {
	t, err := a.makeTemplate(ctx, req.Msg, false)
	if err != nil {
		return nil, fault.Wrap(err, "create snapshot", "")
	}
	return connect.NewResponse(&pb.CreateSnapshotResponse{Name: t.shownName(), SizeBytes: t.SizeBytes}), nil
}

// FlattenRootfs turns a sandbox into a template that contains only the files.
func (a *Agent) FlattenRootfs(ctx context.Context, req *connect.Request[pb.FlattenRootfsRequest]) (*connect.Response[pb.FlattenRootfsResponse], error) {
	t, err := a.makeTemplate(ctx, req.Msg, true)
	if err != nil {
		return nil, fault.Wrap(err, "flatten", "")
	}
	return connect.NewResponse(&pb.FlattenRootfsResponse{SizeBytes: t.SizeBytes}), nil
}

// templateRequest is a request for a new template.
type templateRequest interface {
	GetSandboxId() string
	GetName() string
	GetTeamId() string
	GetTemplateId() string
}

// makeTemplate turns a sandbox into a template. If a client repeats the call because it did not get
// the response, makeTemplate returns the existing template.
func (a *Agent) makeTemplate(ctx context.Context, m templateRequest, flat bool) (*template, error) {
	key, err := newKeyOf(m.GetTeamId(), m.GetTemplateId(), m.GetName())
	if err != nil {
		return nil, err
	}
	there, done, err := a.lockTemplate(ctx, key)
	if err != nil {
		return nil, err
	}
	defer done()
	if there != nil {
		a.mu.Lock()
		again := there.SandboxID == m.GetSandboxId() && there.Flat == flat && a.sandboxes[there.SandboxID] == nil
		a.mu.Unlock()
		if again {
			return there, nil
		}
		return nil, fault.Newf(fault.Exists, "a template with these IDs or this name exists").WithHint("call DeleteSnapshot, or use another template_id")
	}
	s, err := a.find(m.GetSandboxId())
	if err != nil {
		return nil, err
	}
	changed, err := s.lockExisting(ctx)
	if err != nil {
		return nil, err
	}
	defer changed()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), templateTimeout)
	defer cancel()
	t, err := a.convert(ctx, s, key, m.GetName(), flat)
	return t, fault.Wrap(err, "make template of sandbox", s.id())
}

// lockTemplate waits until no other call makes or deletes the template with the given key. It
// returns that template, or nil if there is none. The caller must call done.
func (a *Agent) lockTemplate(ctx context.Context, key templateKey) (there *template, done func(), err error) {
	for {
		a.mu.Lock()
		other := a.templateLocks[key]
		if other == nil {
			break
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	mine := make(chan struct{})
	a.templateLocks[key] = mine
	there = a.templates[key]
	a.mu.Unlock()
	return there, func() {
		a.mu.Lock()
		delete(a.templateLocks, key)
		a.mu.Unlock()
		close(mine)
	}, nil
}

// convert turns a sandbox into a template. The caller must hold the sandbox's change lock.
func (a *Agent) convert(ctx context.Context, s *sandbox, key templateKey, name string, flat bool) (*template, error) {
	before, err := a.status(s)
	if err != nil {
		return nil, err
	}
	status, inactive := before, s.record().Inactive
	switch {
	case status == statusPaused && flat: // changed files may still be only in the machine's memory
		if err := a.resume(ctx, s, func(*record) {}); err != nil {
			return nil, err
		}
		status = statusRunning
	case status == statusPaused, status == statusRunning, status == statusStopped && flat:
	default:
		return nil, notRunning(status)
	}
	endTransition := s.beginTransition(status)
	defer endTransition()
	s.stopSampling()
	r, began := s.record(), time.Now()
	t := &template{
		id: r.WorkspaceID, TeamID: key.team, TemplateID: key.id, Name: name, SandboxID: r.SandboxID, Flat: flat, Environment: r.Environment, Isolation: r.Isolation,
		VCPUs: r.VCPUs, MemoryMB: r.MemoryMB, DiskSizeMB: r.DiskSizeMB, DefaultUser: r.DefaultUser, DefaultEnv: r.DefaultEnv, CreatedAt: a.options.clock().UTC(),
	}
	err = a.options.Machines.MakeTemplate(ctx, t.id, flat, func(sizeBytes int64) string {
		t.SizeBytes = sizeBytes
		text, _ := json.Marshal(t) // a template can always be marshalled
		return string(text)
	})
	if err != nil {
		return nil, errors.Join(err, a.restore(ctx, s, before, inactive))
	}
	// The template is committed now: errors below do not undo it.
	a.mu.Lock()
	a.templates[key] = t
	a.mu.Unlock()
	a.endSource(ctx, t)
	if err := a.deleteRecord(s); err != nil {
		a.options.Log.Error("remove the record of a sandbox that became a template", "sandbox", s.id(), "error", err)
	}
	a.remove(s)
	a.options.Log.Info("template made", "template", t.shownName(), "sandbox", s.id(), "flat", flat, "bytes", t.SizeBytes, "ms", time.Since(began).Milliseconds())
	return t, nil
}

// restore puts a sandbox back into the state before a failed convert. It uses its own timeout,
// because the caller's timeout may have expired.
func (a *Agent) restore(ctx context.Context, s *sandbox, before string, inactive bool) error {
	defer a.startSampling(s)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseTimeout)
	defer cancel()
	id := s.record().WorkspaceID
	runs := a.options.Machines.Running(id)
	if before == statusPaused && runs {
		err := a.pauseMachine(ctx, s)
		return errors.Join(err, a.set(s, func(r *record) { r.Inactive = inactive }))
	}
	if before != statusRunning || runs {
		return nil
	}
	paused, err := a.options.Machines.Paused(ctx, id)
	if err == nil && paused {
		err = a.options.Machines.Resume(ctx, id)
		s.setPaused(false)
	}
	return err
}

// DeleteSnapshot removes a template. It fails with Precondition if a sandbox of this host uses it.
func (a *Agent) DeleteSnapshot(ctx context.Context, req *connect.Request[pb.DeleteSnapshotRequest]) (*connect.Response[pb.DeleteSnapshotResponse], error) {
	const op = "delete snapshot"
	key, err := newKeyOf(req.Msg.TeamId, req.Msg.TemplateId, req.Msg.Name)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	t, done, err := a.lockTemplate(ctx, key)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	defer done()
	if t == nil {
		return nil, fault.Wrap(errNoTemplate(key), op, "")
	}
	if err := a.removeUnused(t); err != nil {
		return nil, fault.Wrap(err, op, t.shownName())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if err := a.options.Machines.DeleteTemplate(ctx, t.id); err != nil && fault.KindOf(err) != fault.NotFound {
		a.mu.Lock()
		a.templates[key] = t
		a.mu.Unlock()
		return nil, fault.Wrap(err, op, t.shownName())
	}
	a.options.Log.Info("template deleted", "template", t.shownName())
	return connect.NewResponse(&pb.DeleteSnapshotResponse{}), nil
}

// removeUnused removes a template from the list, so that no new sandbox can be created from it. It
// fails if a sandbox uses the template.
func (a *Agent) removeUnused(t *template) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, s := range a.sandboxes {
		if s.record().From == t.id {
			return fault.Newf(fault.Precondition, "sandbox %s uses it", id).WithHint("call DestroySandbox for the sandboxes that use it")
		}
	}
	delete(a.templates, t.key())
	return nil
}
