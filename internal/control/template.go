package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/tracing"
)

// MinimalTemplate is the template that every host has.
const MinimalTemplate = "minimal"

// templateTimeout is the maximum time to make a template. The work continues after the client has
// disconnected, because the sandbox may no longer exist.
const templateTimeout = 15 * time.Minute

var templateName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Causes of errors of the kind Exists in requests for templates.
var (
	ErrNameTaken    = store.ErrNameTaken
	ErrNameReserved = errors.New("the name is reserved")
)

// NewTemplate describes a template to make from a sandbox.
type NewTemplate struct {
	SandboxID string
	Name      string // empty: a random name
	Overwrite bool   // replace a template with this name
	FilesOnly bool   // without the processes
}

// CreateTemplate turns a sandbox into a template of the actor's team. The sandbox then no longer
// exists. Precondition: the sandbox is neither running nor paused. Exists: the name is taken. If
// the host does not answer, Reconcile finishes the request.
func (c *Control) CreateTemplate(ctx context.Context, by Actor, req NewTemplate) (t store.Template, err error) {
	ctx, span := tracing.Begin(ctx, "create template", "sandbox", req.SandboxID)
	defer func() {
		c.audit(ctx, by, actCreate, onTemplate, req.Name, err)
		span.End(err)
	}()
	if req.Name == "" {
		var random [4]byte
		rand.Read(random[:])
		req.Name = "template-" + hex.EncodeToString(random[:])
	}
	if err := checkTemplateName(req.Name); err != nil {
		return t, err
	}
	unlock, err := c.lock(ctx, req.SandboxID)
	if err != nil {
		return t, err
	}
	defer unlock()
	b, err := c.store.Sandbox(ctx, by.TeamID, req.SandboxID)
	if err != nil {
		return t, err
	}
	if b.Status != statusRunning && b.Status != statusPaused {
		return t, fault.New(fault.Precondition, "create template of sandbox", b.ID, "it is %s, and must be running or paused", b.Status)
	}
	h, err := c.host(b)
	if err != nil {
		return t, err
	}
	t = store.Template{
		ID: store.NewID(store.TemplatePrefix), TeamID: b.TeamID, HostID: b.HostID, Name: req.Name, SandboxID: b.ID, FilesOnly: req.FilesOnly,
		VCPUs: b.VCPUs, MemoryMB: b.MemoryMB, DiskMB: b.DiskMB, CreatedBy: by.ID, CreatedAt: c.clock().UTC(),
	}
	if err := c.store.AddTemplate(ctx, t, req.Overwrite); err != nil {
		return t, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), templateTimeout)
	defer cancel()
	c.countSentBefore(ctx, h, b)
	t, err = c.makeTemplate(ctx, h, t)
	if err != nil {
		return t, fault.Wrap(err, "create template of sandbox", b.ID)
	}
	c.removeReplaced(ctx, b.HostID, h)
	return t, nil
}

func checkTemplateName(name string) error {
	switch {
	case name == MinimalTemplate:
		return fault.New(fault.Exists, "create template", name, "%w", ErrNameReserved).WithHint("use another name")
	case !templateName().MatchString(name):
		return fault.Newf(fault.Invalid, "%q is not a valid name of a template: it must have 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or a digit", fault.Printable(name[:min(len(name), 80)]))
	}
	return nil
}

// makeTemplate makes a recorded template on its host. If the host refuses, makeTemplate removes the
// record. The caller must hold the lock of the sandbox.
func (c *Control) makeTemplate(ctx context.Context, h Host, t store.Template) (store.Template, error) {
	var err error
	if t.FilesOnly {
		var r *connect.Response[pb.FlattenRootfsResponse]
		r, err = h.Client.FlattenRootfs(ctx, connect.NewRequest(&pb.FlattenRootfsRequest{SandboxId: t.SandboxID, Name: t.Name, TeamId: store.UUID(t.TeamID), TemplateId: store.UUID(t.ID)}))
		if err == nil {
			t.SizeBytes = r.Msg.SizeBytes
		}
	} else {
		var r *connect.Response[pb.CreateSnapshotResponse]
		r, err = h.Client.CreateSnapshot(ctx, connect.NewRequest(&pb.CreateSnapshotRequest{SandboxId: t.SandboxID, Name: t.Name, TeamId: store.UUID(t.TeamID), TemplateId: store.UUID(t.ID)}))
		if err == nil {
			t.SizeBytes = r.Msg.SizeBytes
		}
	}
	err = FromHost(err)
	switch fault.KindOf(err) {
	case "":
		t.Made = true
		return t, c.store.TemplateMade(ctx, t, t.SizeBytes, c.clock().UTC())
	case fault.Unavailable, fault.Canceled, fault.Timeout:
		c.look(t.HostID, templatesOf)
		return t, err // the host may have made it
	}
	if failed := c.store.ForgetTemplate(ctx, t.ID); failed != nil {
		c.log.Error("remove the record of a template that was not made", "template", t.ID, "error", failed)
		c.look(t.HostID, templatesOf)
	}
	return t, err
}

// DeleteTemplate deletes a template of the actor's team. Permission: the template belongs to the
// hosts. Precondition: a sandbox uses the template. If the host does not answer, Reconcile deletes
// it later.
func (c *Control) DeleteTemplate(ctx context.Context, by Actor, name string) (err error) {
	ctx, span := tracing.Begin(ctx, "delete template")
	defer func() {
		c.audit(ctx, by, actDelete, onTemplate, name, err)
		span.End(err)
	}()
	if name == MinimalTemplate {
		return fault.New(fault.Permission, "delete template", name, "it belongs to the hosts")
	}
	t, err := c.store.DeleteTemplate(ctx, by.TeamID, name)
	if err != nil {
		return err
	}
	unlock, err := c.lock(ctx, t.ID)
	if err != nil {
		c.look(t.HostID, templatesOf)
		return nil
	}
	defer unlock()
	h, ok := c.hosts[t.HostID]
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	err = c.removeTemplate(ctx, h, t)
	if fault.KindOf(err) == fault.Precondition { // a fork of a sandbox may use it
		if failed := c.store.RestoreTemplate(ctx, t); failed != nil {
			c.log.Warn("restore the record of a template in use", "template", t.ID, "error", failed)
		}
		return err
	}
	if err != nil {
		c.log.Warn("the host did not delete a template", "template", t.ID, "error", err)
		c.look(t.HostID, templatesOf)
	}
	return nil
}

// removeTemplate removes a template from its host, and then its record.
func (c *Control) removeTemplate(ctx context.Context, h Host, t store.Template) error {
	_, err := h.Client.DeleteSnapshot(ctx, connect.NewRequest(&pb.DeleteSnapshotRequest{Name: t.Name, TeamId: store.UUID(t.TeamID), TemplateId: store.UUID(t.ID)}))
	if err = FromHost(err); err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	return c.store.ForgetTemplate(ctx, t.ID)
}

// removeReplaced removes templates that were replaced by new templates and that no sandbox uses.
// After an error, the follower of the host or Reconcile tries again.
func (c *Control) removeReplaced(ctx context.Context, host string, h Host) {
	if err := c.reconcileTemplates(ctx, host, h); err != nil {
		c.log.Warn("remove the template that was replaced", "error", err)
		c.look(host, templatesOf)
	}
}

// Templates returns the templates of the actor's team, the latest first.
func (c *Control) Templates(ctx context.Context, by Actor) ([]store.Template, error) {
	return c.store.Templates(ctx, by.TeamID)
}

// reconcileTemplates finishes interrupted requests to make and to delete templates of a host.
func (c *Control) reconcileTemplates(ctx context.Context, id string, h Host) error {
	all, err := c.store.UnfinishedTemplates(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range all {
		if err := c.reconcileTemplate(ctx, h, t); err != nil {
			errs = append(errs, fault.Wrap(err, "reconcile template", t.ID))
		}
	}
	return errors.Join(errs...)
}

func (c *Control) reconcileTemplate(ctx context.Context, h Host, t store.Template) error {
	key := t.SandboxID
	if t.Made {
		key = t.ID
	}
	unlock, ok := c.tryLock(key, t.HostID, templatesOf)
	if !ok {
		return nil // a request is making or deleting it
	}
	defer unlock()
	now, err := c.store.TemplateRecord(ctx, t.ID)
	if fault.KindOf(err) == fault.NotFound || err == nil && (now.Made != t.Made || now.Deleted != t.Deleted) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Deleted {
		err := c.removeTemplate(ctx, h, t)
		if fault.KindOf(err) == fault.Precondition {
			err = nil // a fork of a sandbox uses it
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, templateTimeout)
	defer cancel()
	_, err = c.makeTemplate(ctx, h, t)
	return err
}

// applyTemplate sets fields of a new sandbox if its template belongs to the team. Every template
// determines the size of the disk. A template with processes also determines the size of the
// machine.
func (c *Control) applyTemplate(ctx context.Context, b *store.Sandbox) error {
	t, err := c.store.Template(ctx, b.TeamID, b.Template)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	b.TemplateID, b.HostID, b.DiskMB = t.ID, t.HostID, t.DiskMB
	if !t.FilesOnly {
		b.VCPUs, b.MemoryMB = t.VCPUs, t.MemoryMB
	}
	return nil
}

// teamOf returns the team of a sandbox's template in the format of host agents.
func teamOf(b store.Sandbox) string {
	if b.TemplateID == "" {
		return ""
	}
	return store.UUID(b.TeamID)
}
