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

// Spec describes a new workspace. The caller has checked all fields except the name, the labels and
// the seed.
type Spec struct {
	Kind        store.Kind
	Environment string
	Isolation   machine.Isolation // can also be machine.Auto
	AllowHost   bool
	VCPUCount   int
	MemMiB      int
	DiskMiB     int // size of /workspace; 0: store.DefaultDiskMiB
	TTLSeconds  int
	AutoPause   int    // seconds; 0: never
	Network     string // one of the network policies in package store
	Egress      store.Egress
	HostNetwork *store.HostNetwork // the network settings of the host that the machine gets; can be nil
	Name        string
	Labels      map[string]string
	SeedPath    string // a folder or an archive; empty: no seed
	FromProject bool   // SeedPath is the server's project folder, and no caller named it
	Secrets     []secret.Secret
	Credentials []secret.Secret // secrets that every program gets as variables
	Progress    progress.Func

	IncludeIgnored bool // also copy files that git ignores
}

// checkDiscovery checks the name and the labels.
func (s Spec) checkDiscovery() error {
	if s.Name != "" {
		if err := checkName(s.Name); err != nil {
			return err
		}
	}
	return checkLabels(s.Labels)
}

// Create creates a workspace, copies the seed into it, and starts it. It does not start a machine
// of kind vm. If Create fails or is cancelled, no workspace remains.
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
	if w.Secrets, w.Spec.Secrets, err = m.seal(w.ID, spec.Secrets, spec.Credentials); err != nil {
		return Workspace{}, err
	}
	if _, err := m.Sweep(ctx); err != nil {
		return Workspace{}, err
	}
	made, err := m.make(ctx, w, spec.Progress, features.BlockDisks, func(ctx context.Context, f storage.Folder) (store.Disks, store.Seed, error) {
		fill, done := seed.fill(spec.Progress), func() {}
		if fill == nil && features.Isolated {
			var err error
			if fill, done, err = m.imageSeed(ctx, w); err != nil {
				return store.Disks{}, store.Seed{}, err
			}
		}
		defer done()
		d, err := f.Create(ctx, fill)
		return d, seed.summary(), err
	})
	return made, fault.Wrap(err, "create "+string(spec.Kind), "")
}

// plan chooses the driver and the environment, and completes the specification. The caller must
// call release, which unlocks the environment.
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
			HostNetwork: spec.HostNetwork,
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
		ref, err := m.Environments.Use(ctx, spec.Environment, spec.Progress)
		if err != nil {
			return w, features, nil, err
		}
		w.Spec.Digest, w.Spec.Env, w.Spec.User = ref.Digest, ref.Env, ref.User
		release = func() { ref.Close() }
	}
	return w, features, release, nil
}

// make creates the folder, the disks (with fill), the machine and the record, in this order. The
// workspace exists as soon as its record is written.
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
	for _, path := range []string{string(folder), m.Dirs.Workspaces()} { // if the record survives a power failure, its files must survive too
		if err := durable.Sync(path); err != nil {
			return Workspace{}, err
		}
	}
	if w.Disks.Checkpoint == "" {
		w.Spec.Machine = nil // a new machine boots
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
	// If the supervisor has died by now, the workspace exists nevertheless, and its state shows
	// that. A live fork is deleted instead, because it is useless without its programs.
	if err := starting.Release(); err != nil && w.Disks.Checkpoint != "" {
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
	renamed := progress.Func(func(e progress.Event) { // users know the environment by its name, not by its digest
		e.Subject = w.Spec.Environment
		report.Report(e)
	})
	return remote.Start(ctx, program, remote.StartConfig{Dirs: m.Dirs, Folder: string(m.folder(w.ID)), Blocks: blocks, Workspace: w}, renamed)
}

// unlocked is the prefix of folders that are not locked yet.
const unlocked = ".new-"

// newFolder creates a workspace's folder. It locks the folder before the folder gets its final
// name. Otherwise another process could mistake it for an orphan.
func (m *Manager) newFolder(id string) (remote.Folder, *flock.Lock, error) {
	all := m.Dirs.Workspaces()
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", nil, fault.Wrap(err, "make folder", all)
	}
	storage.Spread(all)
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

// environmentOf finds the environment of a workspace, and locks it while it is used.
func (m *Manager) environmentOf(ctx context.Context, w store.Workspace, report progress.Func) (*environment.ImageRef, error) {
	return m.Environments.UseDigest(ctx, w.Spec.Digest, w.Spec.Environment, report)
}
