package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// workspaces are those that are measured: in a state folder of their own, which is gone afterwards.
type workspaces struct {
	*bench
	sdk   *pyro.Pyro
	dir   string // for all of it, on the file system of the user's state
	state string
	kinds []kind

	copies int // that were made: each has a name of its own
}

// kind is one way of keeping workspaces.
type kind struct {
	driver    machine.Driver
	isolation pyro.Isolation
}

// workspace measures workspaces: over the SDK, and where people call it, as the command.
func (b *bench) workspace() error {
	return b.onWorkspaces(func(w *workspaces) []step {
		return []step{
			{"list", w.listed}, {"create", w.created}, {"seeds", w.seeded}, {"snapshots", w.stored}, {"exec", w.used}, {"diff", w.compared}, {"disk list", w.diskListed},
		}
	})
}

// shell measures shells and services.
func (b *bench) shell() error {
	return b.onWorkspaces(func(w *workspaces) []step { return []step{{"shells and services", w.shelled}} })
}

// step is a part of a section.
type step struct {
	name string
	run  func() error
}

// onWorkspaces takes steps with workspaces that are gone afterwards.
func (b *bench) onWorkspaces(steps func(*workspaces) []step) (err error) {
	w, err := b.newWorkspaces()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	w.findKinds()
	for _, s := range steps(w) {
		fmt.Fprintln(os.Stderr, "measuring workspace:", s.name)
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// findKinds finds out what kinds of workspaces this host can have.
func (w *workspaces) findKinds() {
	w.kinds = []kind{{w.driver, w.isolation}}
	if err := w.sandbox.Prove(w.ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, "workspaces under gvisor are not measured:", err)
	} else {
		w.kinds = append(w.kinds, kind{w.sandbox, pyro.IsolationGVisor})
	}
}

func (b *bench) newWorkspaces() (*workspaces, error) {
	program, err := filepath.Abs("bin/pyro")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.dirs.State, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dirs.State, "bench-")
	if err != nil {
		return nil, err
	}
	w := &workspaces{bench: b, dir: dir, state: filepath.Join(dir, "state")}
	if w.sdk, err = pyro.New(pyro.Options{StateDir: w.state, Program: program}); err != nil {
		os.RemoveAll(dir)
	}
	return w, err
}

// remove removes all of it, also when the measuring was interrupted.
func (w *workspaces) remove() error {
	ctx := context.WithoutCancel(w.ctx)
	all, err := w.sdk.ListWorkspaces(ctx)
	for _, one := range all {
		_, failed := w.sdk.DeleteWorkspace(ctx, one.WorkspaceID)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, w.sdk.Close(), os.RemoveAll(w.dir))
}

func (w *workspaces) create(k kind, seed string) (string, error) {
	made, err := w.sdk.CreateWorkspace(w.ctx, pyro.CreateWorkspaceRequest{
		Environment: environmentName, Isolation: k.isolation, SeedPath: seed, VCPUCount: vcpus, MemMiB: memMiB,
	})
	if err != nil {
		return "", err
	}
	return made.WorkspaceID, nil
}

func (w *workspaces) delete(id string) error {
	_, err := w.sdk.DeleteWorkspace(w.ctx, id)
	return err
}

// discard is done with a workspace that has many files. They are removed at the very end: ext4 makes new files ten times slower for minutes after many were removed,
// since it does not give their inodes away so soon (fs/ext4/ialloc.c, recently_deleted).
func (w *workspaces) discard(id string) error {
	_, err := w.sdk.StopWorkspace(w.ctx, id)
	return err
}

// run runs a command in a workspace, and gives what it printed. One that fails is an error.
func (w *workspaces) run(id string, argv ...string) (string, error) {
	r, err := w.sdk.ExecWorkspace(w.ctx, pyro.ExecWorkspaceRequest{WorkspaceID: id, Argv: argv, TimeoutSeconds: 300})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", argv[0], r.ExitCode, strings.TrimSpace(r.Stderr))
	}
	if err != nil {
		return "", err
	}
	return r.Stdout, nil
}

// pyro is a call of the command on these workspaces.
func (w *workspaces) pyro(args ...string) *exec.Cmd {
	cmd := exec.Command("bin/pyro", append([]string{"workspace"}, args...)...)
	cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+w.state)
	return cmd
}

// clocked gives what f takes, in milliseconds, on disks that have nothing left to write of what was done before.
func clocked(f func() error) (float64, error) {
	syscall.Sync()
	began := time.Now()
	err := f()
	return float64(time.Since(began).Microseconds()) / 1000, err
}

// creation measures a creation, from a seed or nothing, and is done with what was created.
func (w *workspaces) creation(k kind, seed string, then func(id string) error) func() (float64, error) {
	return func() (float64, error) {
		var id string
		took, err := clocked(func() (err error) {
			if id, err = w.create(k, seed); err == nil && then != nil {
				err = then(id)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		if seed != "" {
			return took, w.discard(id)
		}
		return took, w.delete(id)
	}
}

// created measures a creation up to the first answer against a machine's own start up to that.
func (w *workspaces) created() error {
	const own = 60 // ms that a workspace may take on top: its folder, its record, a process of its own
	for _, k := range w.kinds {
		r, err := w.inTurn(w.n, w.creation(k, "", func(id string) error {
			_, err := w.run(id, "/bin/true")
			return err
		}), func() (took float64, err error) {
			began := time.Now()
			m, err := w.machineOf(k.driver)
			if err != nil {
				return 0, err
			}
			_, err = m.Agent.Exec(w.ctx, client.Command{Argv: []string{"/bin/true"}}, nil, io.Discard, io.Discard)
			took = float64(time.Since(began).Microseconds()) / 1000
			return took, errors.Join(err, m.Close())
		})
		if err != nil {
			return err
		}
		less := make([]float64, len(r[0]))
		for i, took := range r[0] {
			less[i] = took - own
		}
		w.figures = append(w.figures, figure(fmt.Sprintf("%s: workspace create to first exec; judged less %d ms", k.isolation, own), "ms", r[0]).times(less, r[1], 1.2))
	}
	return nil
}

// less takes from each value what belongs to it.
func less(values, of []float64) []float64 {
	rest := make([]float64, len(values))
	for i := range values {
		rest[i] = values[i] - of[i]
	}
	return rest
}
