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

// keepPatience bounds the making of a template, which is not given up when whoever asked for it goes.
const keepPatience = 15 * time.Minute

// CreateSnapshot has a sandbox become a template with all that runs in it.
func (a *Agent) CreateSnapshot(ctx context.Context, req *connect.Request[pb.CreateSnapshotRequest]) (*connect.Response[pb.CreateSnapshotResponse], error) {
	t, err := a.keep(ctx, req.Msg, false)
	if err != nil {
		return nil, fault.Wrap(err, "create snapshot", "")
	}
	return connect.NewResponse(&pb.CreateSnapshotResponse{Name: t.shownName(), SizeBytes: t.SizeBytes}), nil
}

// FlattenRootfs has a sandbox become a template of its files alone.
func (a *Agent) FlattenRootfs(ctx context.Context, req *connect.Request[pb.FlattenRootfsRequest]) (*connect.Response[pb.FlattenRootfsResponse], error) {
	t, err := a.keep(ctx, req.Msg, true)
	if err != nil {
		return nil, fault.Wrap(err, "flatten", "")
	}
	return connect.NewResponse(&pb.FlattenRootfsResponse{SizeBytes: t.SizeBytes}), nil
}

// keeping is what both are asked for.
type keeping interface {
	GetSandboxId() string
	GetName() string
	GetTeamId() string
	GetTemplateId() string
}

// keep has a sandbox become a template. Asked once more, because the answer got lost, it gives that template.
func (a *Agent) keep(ctx context.Context, m keeping, flat bool) (*template, error) {
	key, err := newKeyOf(m.GetTeamId(), m.GetTemplateId(), m.GetName())
	if err != nil {
		return nil, err
	}
	there, done, err := a.reserve(ctx, key)
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
		return nil, fault.Newf(fault.Exists, "there is a template of these ids, or of this name").WithHint("call DeleteSnapshot, or take another template_id")
	}
	s, err := a.find(m.GetSandboxId())
	if err != nil {
		return nil, err
	}
	changed, err := s.alter(ctx)
	if err != nil {
		return nil, err
	}
	defer changed()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	t, err := a.become(ctx, s, key, m.GetName(), flat)
	return t, fault.Wrap(err, "make template of sandbox", s.id())
}

// reserve waits to be the only one who makes or deletes the template of a key, and gives the one that is there.
func (a *Agent) reserve(ctx context.Context, key templateKey) (there *template, done func(), err error) {
	for {
		a.mu.Lock()
		other := a.keeping[key]
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
	a.keeping[key] = mine
	there = a.templates[key]
	a.mu.Unlock()
	return there, func() {
		a.mu.Lock()
		delete(a.keeping, key)
		a.mu.Unlock()
		close(mine)
	}, nil
}

// become has a sandbox, whose change is the caller's, become a template.
func (a *Agent) become(ctx context.Context, s *sandbox, key templateKey, name string, flat bool) (*template, error) {
	before, err := a.status(s)
	if err != nil {
		return nil, err
	}
	status, inactive := before, s.record().Inactive
	switch {
	case status == statusPaused && flat: // what it changed of its files may be in its memory alone
		if err := a.resume(ctx, s, func(*record) {}); err != nil {
			return nil, err
		}
		status = statusRunning
	case status == statusPaused, status == statusRunning, status == statusStopped && flat:
	default:
		return nil, notRunning(status)
	}
	turned := s.turn(status)
	defer turned()
	s.unwatch()
	r, began := s.record(), time.Now()
	t := &template{
		id: r.WorkspaceID, TeamID: key.team, TemplateID: key.id, Name: name, SandboxID: r.SandboxID, Flat: flat, Environment: r.Environment, Isolation: r.Isolation,
		VCPUs: r.VCPUs, MemoryMB: r.MemoryMB, DiskSizeMB: r.DiskSizeMB, DefaultUser: r.DefaultUser, DefaultEnv: r.DefaultEnv, CreatedAt: a.options.clock().UTC(),
	}
	err = a.options.Machines.Keep(ctx, t.id, flat, func(sizeBytes int64) string {
		t.SizeBytes = sizeBytes
		text, _ := json.Marshal(t) // which can't fail
		return string(text)
	})
	if err != nil {
		return nil, errors.Join(err, a.asBefore(ctx, s, before, inactive))
	}
	// From here on the sandbox is no more, whatever fails.
	a.mu.Lock()
	a.templates[key] = t
	a.mu.Unlock()
	a.settle(ctx, t)
	if err := a.drop(s); err != nil {
		a.options.Log.Error("remove the record of a sandbox that became a template", "sandbox", s.id(), "error", err)
	}
	a.forget(s)
	a.options.Log.Info("template made", "template", t.shownName(), "sandbox", s.id(), "flat", flat, "bytes", t.SizeBytes, "ms", time.Since(began).Milliseconds())
	return t, nil
}

// asBefore has a sandbox be what it was that could not become a template. It has its own time: the caller's may be what was over.
func (a *Agent) asBefore(ctx context.Context, s *sandbox, before string, inactive bool) error {
	defer a.watch(s)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pausePatience)
	defer cancel()
	id := s.record().WorkspaceID
	runs := a.options.Machines.Running(id)
	if before == statusPaused && runs {
		err := a.putDown(ctx, s)
		return errors.Join(err, a.set(s, func(r *record) { r.Inactive = inactive }))
	}
	if before != statusRunning || runs {
		return nil
	}
	paused, err := a.options.Machines.Paused(ctx, id)
	if err == nil && paused {
		err = a.options.Machines.Resume(ctx, id)
		s.rest(false)
	}
	return err
}

// DeleteSnapshot removes a template that no sandbox of this host was made from.
func (a *Agent) DeleteSnapshot(ctx context.Context, req *connect.Request[pb.DeleteSnapshotRequest]) (*connect.Response[pb.DeleteSnapshotResponse], error) {
	const op = "delete snapshot"
	key, err := newKeyOf(req.Msg.TeamId, req.Msg.TemplateId, req.Msg.Name)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	t, done, err := a.reserve(ctx, key)
	if err != nil {
		return nil, fault.Wrap(err, op, "")
	}
	defer done()
	if t == nil {
		return nil, fault.Wrap(errNoTemplate(key), op, "")
	}
	if err := a.withdraw(t); err != nil {
		return nil, fault.Wrap(err, op, t.shownName())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyPatience)
	defer cancel()
	if err := a.options.Machines.Forget(ctx, t.id); err != nil && fault.KindOf(err) != fault.NotFound {
		a.mu.Lock()
		a.templates[key] = t
		a.mu.Unlock()
		return nil, fault.Wrap(err, op, t.shownName())
	}
	a.options.Log.Info("template deleted", "template", t.shownName())
	return connect.NewResponse(&pb.DeleteSnapshotResponse{}), nil
}

// withdraw has no sandbox be made from a template any more, where there is none.
func (a *Agent) withdraw(t *template) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, s := range a.sandboxes {
		if s.record().From == t.id {
			return fault.Newf(fault.Precondition, "sandbox %s was made from it", id).WithHint("call DestroySandbox for those that were made from it")
		}
	}
	delete(a.templates, t.key())
	return nil
}
