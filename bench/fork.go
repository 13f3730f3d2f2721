package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pyro-mcp/pyro"
)

// liveForks is the number of forks that one call makes.
const liveForks = 10

// fork measures pauses, resumes and live forks of workspaces.
func (b *bench) fork() error {
	return b.onWorkspaces(func(w *workspaces) []step {
		return []step{{"pause and live forks", w.forked}}
	})
}

func (w *workspaces) forked() error {
	for _, k := range w.kinds {
		if err := w.forkedOf(k); err != nil {
			return fmt.Errorf("%s: %w", k.isolation, err)
		}
	}
	return nil
}

func (w *workspaces) forkedOf(k kind) error {
	id, err := w.create(k, "")
	if err != nil {
		return err
	}
	if _, err := w.run(id, "/bin/sh", "-c", touch); err != nil {
		return err
	}
	resume := func() (float64, error) {
		return clocked(func() error {
			_, err := w.run(id, "/bin/true") // the command resumes the workspace
			return err
		})
	}
	pause := func() (float64, error) {
		return clocked(func() error {
			_, err := w.sdk.PauseWorkspace(w.ctx, id)
			return err
		})
	}
	r, err := w.alternate(w.n, pause, resume)
	if err != nil {
		return err
	}
	of := string(k.isolation) + ": a workspace that touched 100 MiB: "
	w.figures = append(w.figures, figure(of+"pause, over the SDK", "ms", r[0]), figure(of+"resume by the next command", "ms", r[1]))

	// The forks are made from a paused workspace, so that only the resume is measured.
	if _, err := pause(); err != nil {
		return err
	}
	var singles, memory []float64
	forks := func(count int) func() (float64, error) {
		return func() (float64, error) {
			free, err := available()
			if err != nil {
				return 0, err
			}
			var made *pyro.ForkedWorkspaces
			took, err := clocked(func() (err error) {
				made, err = w.sdk.ForkWorkspace(w.ctx, pyro.ForkWorkspaceRequest{WorkspaceID: id, Live: true, Count: count})
				return err
			})
			if err != nil {
				return 0, err
			}
			now, err := available()
			if count == liveForks {
				memory = append(memory, (free-now)/liveForks)
			}
			for _, f := range made.Workspaces {
				err = errors.Join(err, w.delete(f.WorkspaceID))
			}
			return took, err
		}
	}
	if r, err = w.alternate(max(w.n/3, 3), forks(liveForks), forks(1)); err != nil {
		return err
	}
	for _, one := range r[1] {
		singles = append(singles, one*liveForks/float64(runtime.NumCPU()))
	}
	w.figures = append(w.figures, figure(fmt.Sprintf("%s%d live forks; floor: so many single ones on all processors", of, liveForks), "ms", r[0]).times(r[0], singles, 1.2),
		figure(of+"memory of the host that a live fork takes", "MiB", memory))
	return w.delete(id)
}

// available returns the host's available memory in MiB.
func available() (float64, error) { return kilobytesIn("/proc/meminfo", "MemAvailable") }
