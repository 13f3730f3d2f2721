package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Spec says what workspace to create. It has been checked but for names, labels and the seed.
type Spec struct {
	Kind        store.Kind
	Environment string
	Isolation   machine.Isolation // or isolation.Auto
	AllowHost   bool
	VCPUCount   int
	MemMiB      int
	DiskMiB     int // of /workspace; 0: store.DefaultDiskMiB
	TTLSeconds  int
	AutoPause   int    // seconds; 0: never
	Network     string // one of store's policies
	Egress      store.Egress
	Name        string
	Labels      map[string]string
	SeedPath    string // empty: it begins empty
	FromProject bool   // SeedPath is the project that pyro serves, and nobody gave it
	Secrets     []secret.Secret
	Progress    progress.Func

	IncludeIgnored bool // of a folder also what git ignores
}

// checkDiscovery checks what people are to know it by.
func (s Spec) checkDiscovery() error {
	if s.Name != "" {
		if err := checkName(s.Name); err != nil {
			return err
		}
	}
	return checkLabels(s.Labels)
}

// Create makes a workspace, fills it and starts it; a machine is not started. When it fails or is cancelled nothing is left.
func (m *Manager) Create(ctx context.Context, spec Spec) (Workspace, error) {
	if err := spec.checkDiscovery(); err != nil {
		return Workspace{}, err
	}
	seed, err := openSeed(spec.SeedPath, spec.FromProject, spec.IncludeIgnored)
	if err != nil {
		return Workspace{}, err
	}
	defer seed.close()
	w, features, release, err := m.plan(ctx, spec)
	if err != nil {
		return Workspace{}, err
	}
	defer release()
	if w.Secrets, w.Spec.Secrets, err = m.seal(w.ID, spec.Secrets); err != nil {
		return Workspace{}, err
	}
	if _, err := m.Sweep(ctx); err != nil {
		return Workspace{}, err
	}
	made, err := m.make(ctx, w, spec.Progress, features.BlockDisks, func(ctx context.Context, f storage.Folder) (store.Disks, store.Seed, error) {
		d, err := f.Create(ctx, seed.fill(spec.Progress))
		return d, seed.summary(), err
	})
	return made, fault.Wrap(err, "create "+string(spec.Kind), "")
}

// plan finds the driver and the environment, and says what the workspace will be. What it works from is held until release is called.
func (m *Manager) plan(ctx context.Context, spec Spec) (w store.Workspace, features machine.Features, release func(), err error) {
	drivers, err := m.Drivers()
	if err != nil {
		return w, features, nil, err
	}
	driver, reason, err := drivers.Choose(ctx, spec.Isolation, spec.AllowHost, spec.Progress)
	if err != nil {
		return w, features, nil, err
	}
	w = store.Workspace{
		ID: newID(spec.Kind), Kind: spec.Kind, Name: spec.Name, Labels: spec.Labels, CreatedAt: time.Now().UTC(),
		Spec: store.Spec{
			Environment: spec.Environment, Isolation: string(driver.Isolation()), VCPUCount: spec.VCPUCount, MemMiB: spec.MemMiB, DiskMiB: spec.DiskMiB,
			TTLSeconds: spec.TTLSeconds, AutoPause: spec.AutoPause, Network: spec.Network, Egress: spec.Egress,
		},
	}
	if reason != nil {
		w.Spec.Reason = reason.Error()
	}
	features, release = driver.Features(), func() {}
	if w.Spec.Networked() {
		if err := CheckNetwork(features); err != nil {
			return w, features, nil, err
		}
	}
	if features.Isolated {
		lease, err := m.Environments.Use(ctx, spec.Environment, spec.Progress)
		if err != nil {
			return w, features, nil, err
		}
		w.Spec.Digest, w.Spec.Env, w.Spec.User = lease.Digest, lease.Env, lease.User
		release = func() { lease.Close() }
	}
	return w, features, release, nil
}

// make makes what was planned: its folder, its disks by fill, its machine, and last its record, by which it is.
func (m *Manager) make(ctx context.Context, w store.Workspace, report progress.Func, blocks bool,
	fill func(context.Context, storage.Folder) (store.Disks, store.Seed, error)) (Workspace, error) {
	folder, lock, err := m.newFolder(w.ID)
	if err != nil {
		return Workspace{}, err
	}
	defer lock.Release()
	made := false
	defer func() {
		if !made {
			folder.Remove(context.WithoutCancel(ctx))
		}
	}()
	if w.Disks, w.Spec.Seed, err = fill(ctx, remote.DisksOf(m.Dirs, folder, blocks, w.Spec)); err != nil {
		return Workspace{}, err
	}
	for _, path := range []string{string(folder), m.Dirs.Workspaces()} { // what a record names has to be there after a loss of power
		if err := durable.Sync(path); err != nil {
			return Workspace{}, err
		}
	}
	w.LastActivityAt = time.Now().UTC()
	w.ExpiresAt = w.Spec.Expiry(w.LastActivityAt)
	if w.Kind == store.KindVM {
		if err := m.Store.AddWorkspace(ctx, w); err != nil {
			return Workspace{}, err
		}
		made = true
		return m.now(ctx, w), nil
	}
	w.Starts = 1
	starting, err := m.launch(ctx, w, blocks, report)
	if err != nil {
		return Workspace{}, err
	}
	if err := m.Store.AddWorkspace(ctx, w); err != nil {
		starting.Abandon()
		return Workspace{}, err
	}
	made = true
	// A supervisor that has died by now is told by the state, and the workspace is there all the same: but for a live fork, which is nothing else than what runs in it.
	if err := starting.Release(); err != nil && w.Disks.Memory != "" {
		forgotten := m.Store.Delete(context.WithoutCancel(ctx), w.ID)
		made = forgotten != nil
		return Workspace{}, errors.Join(err, forgotten)
	}
	return m.now(ctx, w), nil
}

// launch starts the supervisor of a workspace.
func (m *Manager) launch(ctx context.Context, w store.Workspace, blocks bool, report progress.Func) (*remote.Starting, error) {
	program, err := m.Program()
	if err != nil {
		return nil, err
	}
	if len(w.Secrets) < len(w.Spec.Secrets) {
		if w.Secrets, err = m.Store.Secrets(ctx, w.ID); err != nil {
			return nil, err
		}
	}
	about := progress.Func(func(e progress.Event) { // people know the environment by its name
		e.Subject = w.Spec.Environment
		report.Report(e)
	})
	return remote.Start(ctx, program, remote.Order{Dirs: m.Dirs, Folder: string(m.folder(w.ID)), Blocks: blocks, Workspace: w}, about)
}

// unlocked begins the name of a folder that its maker has not locked yet.
const unlocked = ".new-"

// newFolder makes a workspace's folder, locked before it has its name, so that nobody ever takes it for one whose maker died.
func (m *Manager) newFolder(id string) (remote.Folder, *flock.Lock, error) {
	all := m.Dirs.Workspaces()
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", nil, fault.Wrap(err, "make folder", all)
	}
	staged, err := os.MkdirTemp(all, unlocked)
	if err != nil {
		return "", nil, fault.Wrap(err, "make folder", all)
	}
	lock, err := flock.Try(filepath.Join(staged, remote.LifecycleLock), flock.Exclusive)
	if err == nil {
		err = os.Rename(staged, string(m.folder(id)))
	}
	if err != nil {
		lock.Release()
		return "", nil, errors.Join(fault.Wrap(err, "make folder", id), os.RemoveAll(staged))
	}
	return m.folder(id), lock, nil
}

// environmentOf holds the environment of a workspace.
func (m *Manager) environmentOf(ctx context.Context, w store.Workspace, report progress.Func) (*environment.Lease, error) {
	return m.Environments.UseDigest(ctx, w.Spec.Digest, w.Spec.Environment, report)
}
