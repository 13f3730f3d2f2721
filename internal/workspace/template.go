package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/isolation"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// About gives the labels of a template, which takes as much of the host's disk.
type About func(sizeBytes int64) map[string]string

// MakeTemplate has a workspace that runs, or is paused, be a template with all that runs in it. The workspace is no more then. Until the one moment in which that becomes
// true it is as it was; with an error it may be paused.
func (m *Manager) MakeTemplate(ctx context.Context, id string, about About) error {
	const op = "make template of workspace"
	lock, err := m.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.Release()
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return err
	}
	c, err := remote.Dial(ctx, m.folder(id))
	if err == nil {
		defer c.Close()
		err = c.Pause(ctx, "it became a template")
	}
	if err != nil && fault.KindOf(err) != fault.Precondition {
		return fault.Wrap(err, op, id)
	}
	w, err := m.Store.Workspace(ctx, id)
	if err != nil {
		return err
	}
	if w.Disks.Memory == "" {
		return fault.New(fault.Precondition, op, id, "it does not run")
	}
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	size := disks.Size(w.Disks, store.Disks{}) + disks.MemorySize(w.Disks.Memory)
	return fault.Wrap(m.Store.MakeTemplate(ctx, id, about(size), w.Spec, w.Disks), op, id)
}

// FlattenTemplate has a workspace that runs, or is stopped, be a template of its files alone: its root is an environment's image of its own, and its volume one layer. The
// workspace is no more then, and its machine has to be ended by SettleTemplate. Until the one moment in which that becomes true it is as it was, and runs on.
func (m *Manager) FlattenTemplate(ctx context.Context, id string, about About, report progress.Func) (err error) {
	const op = "flatten workspace"
	lock, err := m.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.Release()
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return err
	}
	features, err := m.features(w.Spec)
	if err == nil && !features.Isolated {
		err = fault.Newf(fault.Unsupported, "it has no disk: it is host_compat")
	}
	if err != nil {
		return fault.Wrap(err, op, id)
	}
	passing := "." + newID(store.KindWorkspace)
	if err := m.takeSnapshot(ctx, w, passing, true, false); err != nil {
		return fault.Wrap(err, op, id)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), id))
		}
	}()
	from, err := m.Store.Snapshot(ctx, id, passing)
	if err != nil {
		return err
	}
	return fault.Wrap(m.flatten(ctx, w, from.Disks, about, report), op, id)
}

// flatten makes the template of disks that nobody writes to.
func (m *Manager) flatten(ctx context.Context, w store.Workspace, from store.Disks, about About, report progress.Func) error {
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	image, err := m.flatRoot(ctx, w, disks, m.written(disks, from), report)
	if err != nil {
		return err
	}
	defer image.Close()
	held, err := m.folder(w.ID).TakeDisks(ctx) // until the database names what is made here
	if err != nil {
		return err
	}
	defer held.Release()
	flat, err := disks.Flatten(ctx, from)
	if err != nil {
		return err
	}
	taken, err := disk.Allocated(image.Image)
	if err != nil {
		return err
	}
	spec := w.Spec
	spec.Digest = image.Digest
	return m.Store.MakeTemplate(ctx, w.ID, about(taken+disks.Size(flat, store.Disks{})), spec, flat)
}

// flatRoot makes an image of a root.
func (m *Manager) flatRoot(ctx context.Context, w store.Workspace, disks storage.Folder, from store.Disks, report progress.Func) (*environment.Lease, error) {
	base, err := m.environmentOf(ctx, w, report)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	root, opened, err := disks.OpenRoot(ctx, from, base.Image)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return m.Environments.Add(ctx, w.Spec.Environment, report, func(to *mkext4.Writer) error { return view.Copy(ctx, root, to) })
}

// Templates gives all templates.
func (m *Manager) Templates(ctx context.Context) ([]store.Workspace, error) {
	return m.Store.Workspaces(ctx, store.KindTemplate)
}

// SettleTemplate ends the machine that a template was, and removes what it does not need. It is no error where nothing is left of either.
func (m *Manager) SettleTemplate(ctx context.Context, id string) error {
	lock, err := m.lock(ctx, id)
	if err != nil {
		return err
	}
	defer lock.Release()
	if m.folder(id).Running() {
		if err := m.end(ctx, id); err != nil {
			return fault.Wrap(err, "settle template", id)
		}
	}
	return m.sweepDisks(ctx, id)
}

// FromTemplate makes a workspace from a template: all that ran in that goes on in it. From one of files alone it starts anew, with the processors, memory and network of spec.
// As many may be made at once as are wanted.
func (m *Manager) FromTemplate(ctx context.Context, id string, spec Spec) (Workspace, error) {
	const op = "make workspace from template"
	if err := errors.Join(checkID(id), spec.checkDiscovery()); err != nil {
		return Workspace{}, err
	}
	if _, err := m.Sweep(ctx); err != nil {
		return Workspace{}, err
	}
	lock, err := flock.Take(ctx, filepath.Join(string(m.folder(id)), remote.LifecycleLock), flock.Shared, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return Workspace{}, fault.New(fault.NotFound, op, id, "there is none of this id")
	}
	if err != nil {
		return Workspace{}, fault.Wrap(err, op, id)
	}
	defer lock.Release()
	w, err := m.record(ctx, store.KindTemplate, id)
	if err != nil {
		return Workspace{}, err
	}
	if missing := m.missing(w); missing != "" {
		return Workspace{}, fault.New(fault.Corrupt, op, id, "%s is missing", missing)
	}
	live := w.Disks.Memory != ""
	switch {
	case spec.Isolation != isolation.Auto && string(spec.Isolation) != w.Spec.Isolation:
		return Workspace{}, fault.New(fault.Precondition, op, id, "its machines have the isolation %s, and %s is asked for", w.Spec.Isolation, spec.Isolation)
	case live && spec.Network != w.Spec.Network:
		return Workspace{}, fault.New(fault.Precondition, op, id, "what runs in it has the network policy %s, and %s is asked for", w.Spec.Network, spec.Network)
	}
	from := w.Disks
	if !live {
		from = store.Disks{Volume: w.Disks.Baseline}
		w.Spec.VCPUCount, w.Spec.MemMiB, w.Spec.Network = spec.VCPUCount, spec.MemMiB, spec.Network
	}
	made, err := m.fork(ctx, w, from, live, spec)
	return made, fault.Wrap(err, op, id)
}

// SweepTemplates removes what was left of templates that were being made or deleted.
func (m *Manager) SweepTemplates(ctx context.Context) error {
	if _, err := m.Sweep(ctx); err != nil {
		return err
	}
	keep, err := m.Store.Digests(ctx)
	if err != nil {
		return err
	}
	return m.Environments.Sweep(ctx, keep)
}

// DeleteTemplate removes a template, and the image that was made for it where nothing else has that.
func (m *Manager) DeleteTemplate(ctx context.Context, id string) error {
	if err := m.Delete(ctx, store.KindTemplate, id); err != nil {
		return err
	}
	return m.SweepTemplates(ctx)
}
