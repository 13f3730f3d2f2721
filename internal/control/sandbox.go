package control

import (
	"context"
	"math"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// finishTimeout limits the work that an operation does after its client has disconnected: to record
// the host's answer, and to remove a sandbox whose creation failed.
const finishTimeout = 2 * time.Minute

// Actor is the user or the API key that acts, for a team.
type Actor struct {
	Type    string // store.ActorUser, ActorKey or ActorSystem
	ID      string
	Name    string
	TeamID  string
	Address string // of the client
}

// Create describes a new sandbox. The host agent completes fields that are zero.
type Create struct {
	Template   string
	VCPUs      int64
	MemoryMB   int64
	DiskMB     int64
	TimeoutSec int64 // time of inactivity until it is paused; 0: never
	Metadata   map[string]string
	Env        map[string]string // environment variables of all its programs
	Key        string            // makes the request idempotent; empty: it is not
	Request    string            // a digest of the request, for Key
}

// check fails with Invalid if a number is outside its range. The quota and the host agent need
// this, because the host agent gets the numbers as int32.
func (r Create) check() error {
	for _, n := range []struct {
		name        string
		value, most int64
	}{
		{"vcpus", r.VCPUs, 64}, {"memory_mb", r.MemoryMB, 1 << 20}, {"disk_mb", r.DiskMB, 16 << 10}, {"timeout_sec", r.TimeoutSec, math.MaxInt32},
	} {
		if n.value < 0 || n.value > n.most {
			return fault.New(fault.Invalid, "create sandbox", "", "%s is %d: it must be 0 to %d", n.name, n.value, n.most)
		}
	}
	return nil
}

// CreateSandbox creates a sandbox and returns when it runs. If it fails, no sandbox remains. A
// repeated call with the same key returns the sandbox of the first call that succeeded. Invalid: a
// number is outside its range.
func (c *Control) CreateSandbox(ctx context.Context, by Actor, req Create) (b store.Sandbox, err error) {
	began := time.Now()
	ctx, span := tracing.Begin(ctx, "create sandbox")
	defer func() {
		c.audit(ctx, by, actCreate, onSandbox, b.ID, err)
		countCreation(began, err)
		span.Set("sandbox", b.ID)
		span.End(err)
	}()
	if err := req.check(); err != nil {
		return b, err
	}
	b = store.Sandbox{
		HostID: c.chooseHost(), TeamID: by.TeamID, Template: req.Template, VCPUs: req.VCPUs, MemoryMB: req.MemoryMB, DiskMB: req.DiskMB, TimeoutSec: req.TimeoutSec,
		Metadata: req.Metadata,
	}
	if err := c.applyTemplate(ctx, &b); err != nil {
		return b, err
	}
	return c.add(ctx, by, store.NewSandbox{Sandbox: b, Key: req.Key, Request: req.Request}, func(ctx context.Context, h Host, b store.Sandbox) error {
		_, err := h.Client.CreateSandbox(ctx, connect.NewRequest(&pb.CreateSandboxRequest{
			SandboxId: b.ID, Template: b.Template, Vcpus: int32(b.VCPUs), MemoryMb: int32(b.MemoryMB), DiskSizeMb: int32(b.DiskMB),
			TimeoutSec: int32(b.TimeoutSec), DefaultEnv: req.Env, TeamId: teamOf(b), TemplateId: store.UUID(b.TemplateID),
		}))
		return fault.Wrap(FromHost(err), "create sandbox", "")
	})
}

// buildFunc creates a recorded sandbox on a host.
type buildFunc func(ctx context.Context, h Host, b store.Sandbox) error

// add records a new sandbox of the actor's team and creates it on its host. A repeated call with
// the same key returns the sandbox of the first call that succeeded.
func (c *Control) add(ctx context.Context, by Actor, n store.NewSandbox, build buildFunc) (store.Sandbox, error) {
	if _, err := c.host(n.Sandbox); err != nil { // the server of that host could not know that the creation has failed
		return n.Sandbox, err
	}
	for {
		n.ID, n.TeamID, n.Wanted, n.Status, n.CreatedBy = store.NewID(store.SandboxPrefix), by.TeamID, store.WantRunning, store.StatusPending, by.ID
		n.CreatedAt = c.clock().UTC()
		n.UpdatedAt = n.CreatedAt
		b, again, err := c.tryAdd(ctx, n, build)
		if !again {
			return b, err
		}
	}
}

// tryAdd adds a sandbox. If an earlier request with the same key is in progress, it waits for the
// sandbox of that request. If the earlier request fails, again is true.
func (c *Control) tryAdd(ctx context.Context, n store.NewSandbox, build buildFunc) (b store.Sandbox, again bool, err error) {
	unlock, err := c.lock(ctx, n.ID)
	if err != nil {
		return n.Sandbox, false, err
	}
	defer unlock()
	b, found, err := c.store.AddSandbox(ctx, n)
	if err != nil {
		return b, false, err
	}
	if found {
		return c.created(ctx, b, build)
	}
	b, err = c.make(ctx, b, build)
	return b, false, err
}

// chooseHost returns the host for a new sandbox.
func (c *Control) chooseHost() string {
	for id := range c.hosts {
		return id
	}
	return ""
}

// created waits until an earlier request has created a sandbox, or creates it if that request was
// interrupted. If the earlier request fails, again is true.
func (c *Control) created(ctx context.Context, b store.Sandbox, build buildFunc) (_ store.Sandbox, again bool, err error) {
	unlock, err := c.lock(ctx, b.ID)
	if err != nil {
		return b, false, err
	}
	defer unlock()
	b, err = c.store.Sandbox(ctx, b.TeamID, b.ID)
	if err != nil || b.Made {
		return b, fault.KindOf(err) == fault.NotFound, err
	}
	b, err = c.make(ctx, b, build)
	return b, false, err
}

// make creates a recorded sandbox on its host. The caller holds its lock.
func (c *Control) make(ctx context.Context, b store.Sandbox, build buildFunc) (store.Sandbox, error) {
	h, err := c.host(b)
	if err != nil {
		return b, err
	}
	err = build(ctx, h, b)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err != nil && fault.KindOf(err) != fault.Exists {
		c.discard(ctx, h, b)
		return b, err
	}
	now := c.clock().UTC()
	if err := c.store.Report(ctx, b.ID, statusRunning, now, now, now); err != nil {
		c.look(b.HostID, b.ID)
		return b, err
	}
	b.Made, b.Status, b.StartedAt, b.ActiveAt, b.UpdatedAt = true, statusRunning, now, now, now
	return b, nil
}

// discard removes a sandbox whose creation failed. If that fails, Reconcile removes it later.
func (c *Control) discard(ctx context.Context, h Host, b store.Sandbox) {
	_, err := c.store.SetWanted(ctx, b.TeamID, b.ID, store.WantDeleted, c.clock())
	if err == nil {
		err = c.destroy(ctx, h, b)
	}
	if err != nil {
		c.log.Error("remove a sandbox whose creation failed", "sandbox", b.ID, "error", err)
		c.look(b.HostID, b.ID)
	}
}

// destroy destroys a sandbox that is recorded as deleted, and removes its record.
func (c *Control) destroy(ctx context.Context, h Host, b store.Sandbox) error {
	c.countSentBefore(ctx, h, b)
	_, err := h.Client.DestroySandbox(ctx, connect.NewRequest(&pb.DestroySandboxRequest{SandboxId: b.ID}))
	if err = FromHost(err); err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	if err := c.store.Forget(ctx, b.ID); err != nil {
		return err
	}
	if b.TemplateID != "" { // it may have been the last sandbox of a deleted template
		c.look(b.HostID, templatesOf)
	}
	return nil
}

// DeleteSandbox deletes a sandbox. If its host does not answer, the sandbox is only recorded as
// deleted, and Reconcile destroys it later. Lists do not contain sandboxes that are recorded as
// deleted.
func (c *Control) DeleteSandbox(ctx context.Context, by Actor, id string) error {
	_, err := c.change(ctx, by, id, actDelete, store.WantDeleted, func(ctx context.Context, h Host, b store.Sandbox) (string, error) {
		err := c.destroy(ctx, h, b)
		if fault.KindOf(err) == fault.Unavailable {
			c.log.Warn("the host of a deleted sandbox does not answer", "sandbox", id, "error", err)
			c.look(b.HostID, id)
			err = nil
		}
		return "", err
	})
	return err
}

// PauseSandbox pauses a sandbox. Precondition: it does not run.
func (c *Control) PauseSandbox(ctx context.Context, by Actor, id string) (store.Sandbox, error) {
	return c.change(ctx, by, id, actPause, store.WantPaused, pause)
}

// pause pauses a sandbox on its host, and returns its new status.
func pause(ctx context.Context, h Host, b store.Sandbox) (string, error) {
	_, err := h.Client.PauseSandbox(ctx, connect.NewRequest(&pb.PauseSandboxRequest{SandboxId: b.ID}))
	return statusPaused, FromHost(err)
}

// ResumeSandbox resumes a paused sandbox. Precondition: it is not paused. Exhausted: a quota.
func (c *Control) ResumeSandbox(ctx context.Context, by Actor, id string) (store.Sandbox, error) {
	b, err := c.store.Sandbox(ctx, by.TeamID, id)
	if err == nil && b.Wanted == store.WantRunning { // the host may have paused it for inactivity
		h, err := c.host(b)
		if err == nil {
			err = c.compare(ctx, b.HostID, h, id, nil)
		}
		if err != nil {
			c.log.Warn("compare a sandbox with its host", "sandbox", id, "error", err)
		}
	}
	return c.change(ctx, by, id, actResume, store.WantRunning, resume)
}

// resume resumes a sandbox on its host, and returns its new status.
func resume(ctx context.Context, h Host, b store.Sandbox) (string, error) {
	_, err := h.Client.ResumeSandbox(ctx, connect.NewRequest(&pb.ResumeSandboxRequest{SandboxId: b.ID, TimeoutSec: int32(b.TimeoutSec)}))
	return statusRunning, FromHost(err)
}

// Statuses of the host agent.
const (
	statusRunning = "running"
	statusPaused  = "paused"
	StatusMissing = "missing" // the host no longer has the sandbox
)

// change records the wanted state, calls the host, and records the new status. If the host refuses,
// it restores the record.
func (c *Control) change(ctx context.Context, by Actor, id, action string, w store.Wanted, call func(context.Context, Host, store.Sandbox) (string, error)) (b store.Sandbox, err error) {
	ctx, span := tracing.Begin(ctx, action+" sandbox", "sandbox", id)
	defer func() {
		c.auditNamed(ctx, by, action, onSandbox, id, b.Metadata["name"], err)
		span.End(err)
	}()
	unlock, err := c.lock(ctx, id)
	if err != nil {
		return store.Sandbox{}, err
	}
	defer unlock()
	return c.changeLocked(ctx, by, id, action, w, call)
}

// changeLocked is like change, but adds no entry to the audit log. The caller holds the sandbox's
// lock.
func (c *Control) changeLocked(ctx context.Context, by Actor, id, action string, w store.Wanted, call func(context.Context, Host, store.Sandbox) (string, error)) (b store.Sandbox, err error) {
	before, err := c.store.Sandbox(ctx, by.TeamID, id)
	if err != nil {
		return before, err
	}
	if before.Wanted == w { // the host agent would return success
		return before, fault.New(fault.Precondition, action+" sandbox", id, "it is already %s", before.Status)
	}
	h, err := c.host(before)
	if err != nil {
		return before, err
	}
	b, err = c.store.SetWanted(ctx, by.TeamID, id, w, c.clock().UTC())
	if err != nil {
		return before, err
	}
	status, err := call(ctx, h, b)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	switch {
	case err != nil && w != store.WantDeleted && refused(err):
		if _, failed := c.store.SetWanted(ctx, by.TeamID, id, before.Wanted, c.clock().UTC()); failed != nil {
			c.log.Error("restore the record of a sandbox", "sandbox", id, "error", failed)
			c.look(b.HostID, id)
		}
		return before, err
	case err != nil:
		c.look(b.HostID, id)
		return b, err
	case w == store.WantDeleted:
		return b, nil
	}
	b.Status, b.UpdatedAt = status, c.clock().UTC()
	if err := c.store.Report(ctx, id, status, b.StartedAt, b.ActiveAt, b.UpdatedAt); err != nil {
		c.look(b.HostID, id)
		return b, err
	}
	return b, nil
}

// refused reports whether an error of a host proves that the host did not execute the request.
func refused(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Precondition, fault.Exhausted, fault.Unsupported:
		return true
	}
	return false
}

// Sandbox returns a sandbox of the actor's team.
func (c *Control) Sandbox(ctx context.Context, by Actor, id string) (store.Sandbox, error) {
	return c.store.Sandbox(ctx, by.TeamID, id)
}

// Sandboxes returns the sandboxes of the actor's team, the latest first.
func (c *Control) Sandboxes(ctx context.Context, by Actor) ([]store.Sandbox, error) {
	return c.store.Sandboxes(ctx, by.TeamID)
}

// Client returns the client for the host of a sandbox of the actor's team. Its calls name the
// sandbox by its ID.
func (c *Control) Client(ctx context.Context, by Actor, id string) (HostClient, error) {
	b, err := c.store.Sandbox(ctx, by.TeamID, id)
	if err != nil {
		return nil, err
	}
	h, err := c.host(b)
	return h.Client, err
}
