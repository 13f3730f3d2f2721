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
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// LabelFunc returns the labels of a template. sizeBytes is the template's size on the host, in
// bytes.
type LabelFunc func(sizeBytes int64) map[string]string

// MakeTemplate turns a running or paused workspace into a template that includes its running
// programs. Afterwards the workspace no longer exists. The change is one database transaction. If
// MakeTemplate fails, the workspace is unchanged or paused.
func (m *Manager) MakeTemplate(ctx context.Context, id string, labels LabelFunc) error {
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
	if w.Disks.Checkpoint == "" {
		return fault.New(fault.Precondition, op, id, "it is not running")
	}
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	size := disks.Size(w.Disks, store.Disks{}) + disks.CheckpointSize(w.Disks.Checkpoint)
	return fault.Wrap(m.Store.MakeTemplate(ctx, id, labels(size), w.Spec, w.Disks), op, id)
}

// FlattenTemplate turns a running or stopped workspace into a template that contains only files.
// Its root disk becomes an image, and its volume becomes one layer. Afterwards the workspace no
// longer exists, and the caller must call TidyTemplate, which ends its machine. The change is one
// database transaction. If FlattenTemplate fails, the workspace is unchanged.
func (m *Manager) FlattenTemplate(ctx context.Context, id string, labels LabelFunc, report progress.Func) (err error) {
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
	temporary := "." + newID(store.KindWorkspace)
	if err := m.takeSnapshot(ctx, w, temporary, true, false); err != nil {
		return fault.Wrap(err, op, id)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), id))
		}
	}()
	from, err := m.Store.Snapshot(ctx, id, temporary)
	if err != nil {
		return err
	}
	return fault.Wrap(m.flatten(ctx, w, from.Disks, labels, report), op, id)
}

// flatten creates the template from disks to which no machine writes.
func (m *Manager) flatten(ctx context.Context, w store.Workspace, from store.Disks, labels LabelFunc, report progress.Func) error {
	disks, err := m.disks(w)
	if err != nil {
		return err
	}
	image, err := m.flatRoot(ctx, w, disks, m.written(disks, from), report)
	if err != nil {
		return err
	}
	defer image.Close()
	held, err := m.folder(w.ID).TakeDisks(ctx) // locked until the database contains the new files
	if err != nil {
		return err
	}
	defer held.Release()
	flat, err := disks.Flatten(ctx, from)
	if err != nil {
		return err
	}
	imageBytes, err := disk.Allocated(image.Image)
	if err != nil {
		return err
	}
	spec := w.Spec
	spec.Digest = image.Digest
	return m.Store.MakeTemplate(ctx, w.ID, labels(imageBytes+disks.Size(flat, store.Disks{})), spec, flat)
}

// flatRoot creates an image from the content of a root disk.
func (m *Manager) flatRoot(ctx context.Context, w store.Workspace, disks storage.Folder, from store.Disks, report progress.Func) (*environment.ImageRef, error) {
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

// Templates returns all templates.
func (m *Manager) Templates(ctx context.Context) ([]store.Workspace, error) {
	return m.Store.Workspaces(ctx, store.KindTemplate)
}

// TidyTemplate ends the machine of a workspace that became a template, and removes files that the
// template does not need. It is idempotent.
func (m *Manager) TidyTemplate(ctx context.Context, id string) error {
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

// FromTemplate creates a workspace from a template. If the template includes running programs, they
// continue. If it contains only files, the workspace boots with the processors, the memory and the
// network of spec. Several workspaces can be created from one template at the same time.
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
		return Workspace{}, fault.New(fault.NotFound, op, id, "no template has this ID")
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
	live := w.Disks.Checkpoint != ""
	switch {
	case spec.Isolation != machine.Auto && string(spec.Isolation) != w.Spec.Isolation:
		return Workspace{}, fault.New(fault.Precondition, op, id, "its machines have the isolation %s, but the request has %s", w.Spec.Isolation, spec.Isolation)
	case live && spec.Network != w.Spec.Network:
		return Workspace{}, fault.New(fault.Precondition, op, id, "its programs have the network policy %s, but the request has %s", w.Spec.Network, spec.Network)
	}
	from := w.Disks
	if !live {
		from = store.Disks{Volume: w.Disks.Baseline}
		w.Spec.VCPUCount, w.Spec.MemMiB, w.Spec.Network = spec.VCPUCount, spec.MemMiB, spec.Network
	}
	made, err := m.fork(ctx, w, from, live, false, spec)
	return made, fault.Wrap(err, op, id)
}

// SweepTemplates removes the remains of creations and deletions of templates that were interrupted.
func (m *Manager) SweepTemplates(ctx context.Context) error {
	if _, err := m.Sweep(ctx); err != nil {
		return err
	}
	return m.Environments.Sweep(ctx, m.Store.Digests)
}

// DeleteTemplate deletes a template. It also deletes the template's image, unless another record
// uses that image.
func (m *Manager) DeleteTemplate(ctx context.Context, id string) error {
	if err := m.Delete(ctx, store.KindTemplate, id); err != nil {
		return err
	}
	return m.SweepTemplates(ctx)
}
