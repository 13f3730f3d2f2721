package workspace

import (
	"context"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Commit contains the parameters of [Manager.Commit].
type Commit struct {
	ID            string // of the workspace
	Name          string // full name of the environment, see [environment.NewName]
	OmitWorkspace bool   // leave out the files of /workspace
	Progress      progress.Func
}

// Commit creates an environment from the files of a workspace: its root, and its files in
// /workspace. The workspace can run during the call, and does not change. The environment contains
// no running programs. Unsupported: the workspace has no disk.
func (m *Manager) Commit(ctx context.Context, c Commit) (environment.Environment, error) {
	made, err := m.commit(ctx, c)
	return made, fault.Wrap(err, "make environment of workspace", c.ID)
}

func (m *Manager) commit(ctx context.Context, c Commit) (_ environment.Environment, err error) {
	lock, err := m.lock(ctx, c.ID)
	if err != nil {
		return environment.Environment{}, err
	}
	defer lock.Release()
	w, from, err := m.frozen(ctx, c.ID)
	if err != nil {
		return environment.Environment{}, err
	}
	defer func() { err = errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), c.ID)) }()
	held, err := m.folder(c.ID).TakeDisks(ctx) // so that nobody removes the disks of the snapshot
	if err != nil {
		return environment.Environment{}, err
	}
	defer held.Release()
	base, err := m.environmentOf(ctx, w, c.Progress)
	if err != nil {
		return environment.Environment{}, err
	}
	defer base.Close()
	disks, err := m.disks(w)
	if err != nil {
		return environment.Environment{}, err
	}
	files, err := disks.OpenView(ctx, m.written(disks, from), base.Image)
	if err != nil {
		return environment.Environment{}, err
	}
	defer files.Close()
	var tree view.Tree = files.FS
	if c.OmitWorkspace {
		tree = files.Root()
	}
	env, recipe := m.described(w, c.Name)
	return m.Environments.MakeFrom(ctx, env, recipe, tree, c.Progress)
}

// described returns the record of an environment that is made from a workspace. It has the
// configuration of the workspace's own environment.
func (m *Manager) described(w store.Workspace, name string) (environment.Environment, environment.Recipe) {
	env := environment.Environment{Name: name, Source: environment.SourceCommit, Env: w.Spec.Env, User: w.Spec.User}
	config := v1.Config{Env: w.Spec.Env, User: w.Spec.User}
	if from, recipe, err := m.Environments.Recipe(w.Spec.Environment); err == nil && from.Digest == w.Spec.Digest {
		config, env.WorkDir, env.Entrypoint, env.Cmd = recipe.Config, from.WorkDir, from.Entrypoint, from.Cmd
	}
	return env, environment.Recipe{Config: config}
}

// frozen returns disks with the current files of a locked workspace. No machine writes to these
// disks.
func (m *Manager) frozen(ctx context.Context, id string) (store.Workspace, store.Disks, error) {
	w, err := m.record(ctx, store.KindWorkspace, id)
	if err != nil {
		return store.Workspace{}, store.Disks{}, err
	}
	features, err := m.features(w.Spec)
	if err == nil && !features.Isolated {
		err = fault.Newf(fault.Unsupported, "it has no disk: it is host_compat")
	}
	if err != nil {
		return store.Workspace{}, store.Disks{}, err
	}
	temporary := "." + newID(store.KindWorkspace)
	if err := m.takeSnapshot(ctx, w, temporary, true, false); err != nil {
		return store.Workspace{}, store.Disks{}, err
	}
	from, err := m.Store.Snapshot(ctx, id, temporary)
	if err != nil {
		err = errors.Join(err, m.sweepDisks(context.WithoutCancel(ctx), id))
	}
	return w, from.Disks, err
}
