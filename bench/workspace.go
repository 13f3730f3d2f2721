package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/program"
)

// workspaces contains a temporary state folder for the measured workspaces.
type workspaces struct {
	*bench
	sdk   *pyro.Pyro
	dir   string // a folder on the file system that contains the user's state
	state string
	kinds []kind

	copies int // number of copies so far, used for unique names
}

// kind is a combination of storage and isolation.
type kind struct {
	driver    machine.Driver
	isolation pyro.Isolation
}

// workspace measures workspaces through the SDK, and some operations through the command pyro.
func (b *bench) workspace() error {
	return b.onWorkspaces(func(w *workspaces) []step {
		return []step{
			{"list", w.listed}, {"create", w.created}, {"seeds", w.seeded}, {"snapshots", w.stored}, {"exec", w.used}, {"diff", w.compared}, {"disk list", w.diskListed},
		}
	})
}

// shell measures shells and services.
func (b *bench) shell() error {
	return b.onWorkspaces(func(w *workspaces) []step { return []step{{"shells and services", w.shells}} })
}

// step is one part of a section.
type step struct {
	name string
	run  func() error
}

// onWorkspaces runs steps that use temporary workspaces.
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

// findKinds determines the kinds that this host supports.
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

// remove deletes all workspaces and the folder, even after an interruption.
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

// discard stops a workspace that has many files. The workspace is removed only at the very end.
// After the removal of many files, ext4 creates new files ten times slower for minutes. The reason
// is that ext4 does not reuse the inodes immediately (fs/ext4/ialloc.c, recently_deleted).
func (w *workspaces) discard(id string) error {
	_, err := w.sdk.StopWorkspace(w.ctx, id)
	return err
}

// run runs a command in a workspace and returns its output. If the exit code is not 0, run returns
// an error.
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

// pyro returns a pyro workspace command that uses the temporary state folder.
func (w *workspaces) pyro(args ...string) *exec.Cmd {
	cmd := exec.Command("bin/pyro", append([]string{"workspace"}, args...)...)
	cmd.Env = append(os.Environ(), "PYRO_STATE_DIR="+w.state)
	return cmd
}

// clocked calls sync, then f. It returns the time that f took, in milliseconds.
func clocked(f func() error) (float64, error) {
	syscall.Sync()
	began := time.Now()
	err := f()
	return float64(time.Since(began).Microseconds()) / 1000, err
}

// creation returns a function that measures how long it takes to create a workspace. If seed is not
// empty, the workspace has that seed. If there is a callback, the measured time includes it.
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

// created compares creating a workspace and running its first command with starting a machine.
func (w *workspaces) created() error {
	const own = 60 // ms for the workspace's folder, record and process
	for _, k := range w.kinds {
		r, err := w.alternate(w.n, w.creation(k, "", func(id string) error {
			_, err := w.run(id, "/bin/true")
			return err
		}), func() (took float64, err error) {
			began := time.Now()
			m, err := w.machineOf(k.driver)
			if err != nil {
				return 0, err
			}
			_, err = m.Agent.Exec(w.ctx, program.Command{Argv: []string{"/bin/true"}}, program.Attach{})
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

// less returns the differences between the elements of two slices.
func less(values, of []float64) []float64 {
	rest := make([]float64, len(values))
	for i := range values {
		rest[i] = values[i] - of[i]
	}
	return rest
}
