package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/program"
)

// used measures a command in a workspace. It compares the SDK with the machine itself, and the
// command pyro with the SDK.
func (w *workspaces) used() error {
	for _, k := range w.kinds {
		if err := w.usedOf(k); err != nil {
			return err
		}
	}
	return nil
}

func (w *workspaces) usedOf(k kind) error {
	id, err := w.create(k, "")
	if err != nil {
		return err
	}
	m, err := w.machineOf(k.driver)
	if err != nil {
		return err
	}
	defer m.Close()
	r, err := w.times(max(w.n, 10)*2, func() error {
		_, err := w.run(id, "/bin/true")
		return err
	}, func() error {
		_, err := m.Agent.Exec(w.ctx, program.Command{Argv: []string{"/bin/true"}}, program.Attach{})
		return err
	}, func() error {
		return w.pyro("exec", "-q", id, "--", "/bin/true").Run()
	})
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure(string(k.isolation)+": workspace exec /bin/true over the SDK; floor: the machine's own", "ms", r[0]).over(r[1], 3),
		figure(string(k.isolation)+": pyro workspace exec -q ID -- /bin/true, whole process; floor: over the SDK", "ms", r[2]).over(r[0], 40))
	return w.delete(id)
}

const edited = 10 // number of files that differ from the baseline

// commit is a script that creates a git repository for a tree, outside the tree. The script runs on
// the host, because it takes a minute under emulation.
const commit = `set -e
git init -q
git -c core.compression=0 -c core.fsync=none add -A
git -c gc.auto=0 -c user.name=bench -c user.email=bench@example.com commit -qm baseline
git repack -adq --window=0`

// compared compares a diff with git on the same tree in the same machine. The index of git is warm.
func (w *workspaces) compared() error {
	tree, err := w.tree(sources)
	if err != nil {
		return err
	}
	repository := exec.Command("sh", "-c", commit)
	repository.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(w.dir, "git"), "GIT_WORK_TREE="+tree, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := repository.CombinedOutput(); err != nil {
		return fmt.Errorf("git on the host: %w: %s", err, out)
	}
	for _, k := range w.kinds {
		if err := w.comparedOf(k, tree); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(tree), os.RemoveAll(filepath.Join(w.dir, "git")))
}

// bring copies a folder to /root in a workspace. That is outside the compared tree.
func (w *workspaces) bring(id, folder string) error {
	packed, err := exec.Command("tar", "-C", w.dir, "-c", folder).Output()
	if err != nil {
		return fmt.Errorf("tar: %w", err)
	}
	r, err := w.sdk.ExecWorkspace(w.ctx, pyro.ExecWorkspaceRequest{
		WorkspaceID: id, Argv: []string{"tar", "-x", "--no-same-owner", "-C", "/root"}, Stdin: bytes.NewReader(packed), TimeoutSeconds: 60,
	})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("tar: exit code %d: %s", r.ExitCode, r.Stderr)
	}
	return err
}

func (w *workspaces) comparedOf(k kind, tree string) error {
	id, err := w.create(k, tree)
	if err != nil {
		return err
	}
	if err := w.bring(id, "git"); err != nil {
		return err
	}
	if _, err := w.run(id, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do echo edited >> folder-10$((i - 1))/file-050.txt; done", edited)); err != nil {
		return err
	}
	git := []string{"env", "GIT_DIR=/root/git", "GIT_WORK_TREE=/workspace"}
	r, err := w.times(min(w.n, 5), func() error {
		d, err := w.sdk.DiffWorkspace(w.ctx, pyro.DiffWorkspaceRequest{WorkspaceID: id})
		if err == nil && len(d.Entries) != edited {
			err = fmt.Errorf("the diff has %d files instead of %d", len(d.Entries), edited)
		}
		return err
	}, func() error {
		out, err := w.run(id, append(git, "git", "status", "--porcelain")...)
		if reported := strings.Count(out, "\n"); err == nil && reported != edited {
			err = fmt.Errorf("git status: got %d files, want %d", reported, edited)
		}
		return err
	})
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure(string(k.isolation)+": workspace diff, 20,000 files; floor: git status, warm", "ms", r[0]).times(r[0], r[1], 2))
	return w.discard(id)
}

// listed measures how long it takes to list many workspaces. It also measures the memory of the
// running supervisors.
func (w *workspaces) listed() error {
	const stopped, running = 20, 6
	k := w.kinds[len(w.kinds)-1] // the kind whose machines need the least memory
	var made []string
	for i := range stopped + running {
		id, err := w.create(k, "")
		if err != nil {
			return err
		}
		made = append(made, id)
		if _, err := w.run(id, "/bin/true"); err != nil {
			return err
		}
		if i < stopped {
			if _, err := w.sdk.StopWorkspace(w.ctx, id); err != nil {
				return err
			}
		}
	}
	r, err := w.times(w.n*3, func() error {
		all, err := w.sdk.ListWorkspaces(w.ctx)
		if err == nil && len(all) != stopped+running {
			err = fmt.Errorf("the list has %d workspaces instead of %d", len(all), stopped+running)
		}
		return err
	}, func() error { return w.pyro("list").Run() })
	if err != nil {
		return err
	}
	of := fmt.Sprintf(", %d stopped and %d running", stopped, running)
	w.figures = append(w.figures, figure("ListWorkspaces, Go API"+of, "ms", r[0]).atMost(30), figure("pyro workspace list, whole process"+of, "ms", r[1]).atMost(30))
	time.Sleep(5 * time.Second)
	memory, err := supervisors()
	if err == nil && len(memory) != running {
		err = fmt.Errorf("%d supervisors run instead of %d", len(memory), running)
	}
	if err != nil {
		return err
	}
	w.figures = append(w.figures, figure(string(k.isolation)+": supervisor of a workspace, idle, PSS", "MiB", memory).atMost(20))
	for _, id := range made {
		err = errors.Join(err, w.delete(id))
	}
	return err
}

// supervisors returns the memory of each running supervisor that this process started.
func supervisors() (memory []float64, err error) {
	for _, pid := range family(os.Getpid())[1:] {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !strings.Contains(string(argv), "pyro\x00supervise\x00") {
			continue
		}
		pss, failed := kilobytes(pid, "smaps_rollup", "Pss")
		memory, err = append(memory, pss), errors.Join(err, failed)
	}
	return memory, err
}
