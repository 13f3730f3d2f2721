package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pyro-mcp/pyro"
)

// grown contains trees of small files. Each tree is ten times as large as the previous tree.
var grown = []shape{{10, 100, 300}, {100, 100, 300}, {1000, 100, 300}}

// trees measures operations on trees of growing size.
func (b *bench) trees() error {
	return b.onWorkspaces(func(w *workspaces) (steps []step) {
		k := w.kinds[len(w.kinds)-1]
		if k.driver.Features().BlockDisks {
			return nil // findKinds has already reported the reason
		}
		for _, s := range grown {
			steps = append(steps, step{fmt.Sprintf("trees of %d files", s.folders*s.files), func() error { return w.grown(k, s) }})
		}
		return steps
	})
}

// fillTree is a program that creates a tree of small files in /workspace.
const fillTree = `import os, sys
folders, files, size = map(int, sys.argv[1:])
for i in range(folders):
    os.mkdir("/workspace/%d" % i)
    for j in range(files):
        with open("/workspace/%d/%d" % (i, j), "w") as f: f.write("a line of 20 bytes.\n" * (size // 20))`

// grown measures operations on a tree of one size. Each figure has the host's own command for the
// same files as its floor.
func (w *workspaces) grown(k kind, s shape) error {
	tree, err := w.tree(s)
	if err != nil {
		return err
	}
	git := append(os.Environ(), "GIT_DIR="+filepath.Join(w.dir, fmt.Sprintf("git-%d", s.folders)), "GIT_WORK_TREE="+tree, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	host := func(name string, args ...string) func() (float64, error) {
		return func() (float64, error) {
			return clocked(func() error {
				cmd := exec.Command(name, args...)
				cmd.Env = git
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%s: %w: %s", name, err, out)
				}
				return nil
			})
		}
	}
	if _, err := host("sh", "-c", commit)(); err != nil {
		return err
	}
	id, err := w.create(k, tree)
	if err != nil {
		return err
	}
	if err := w.snapshot(id, kept); err != nil {
		return err
	}
	changed, err := w.create(k, "")
	if err != nil {
		return err
	}
	if _, err := w.run(changed, "python3", "-c", fillTree, fmt.Sprint(s.folders), fmt.Sprint(s.files), fmt.Sprint(s.size)); err != nil {
		return err
	}
	twin := filepath.Join(w.dir, fmt.Sprintf("twin-%d", s.folders))
	if _, err := host("cp", "-a", tree, twin)(); err != nil {
		return err
	}
	const add = "rm -rf $GIT_DIR-new; export GIT_DIR=$GIT_DIR-new; git init -q; git -c core.fsync=none add -A; git diff --cached --stat"
	rows := []struct {
		name, command string
		ours, floor   func() (float64, error)
	}{
		{"list, recursive", "find", w.listingTree(id), host("find", tree, "-printf", "%p %s %m %T@\n")},
		{"diff, nothing changed", "git status", w.comparing(id, 0), host("git", "status", "--porcelain")},
		{"diff --stat, all files new", "git add, diff --stat", w.comparing(changed, s.folders*(s.files+1)), host("sh", "-c", add)},
		{"sync push, nothing changed", "diff -r", w.pushing(id, tree, s.folders*s.files), host("diff", "-rq", tree, twin)},
		{"export", "cp -r, sync", w.exporting(id), w.copying(tree, "-r")},
		{"snapshot", "cp -al, sync", w.snapshotting(id), w.copying(tree, "-al")},
		{"fork of a snapshot", "cp -a, sync", w.forking(id, kept), w.copying(tree, "-a")},
		{"fork of a running workspace", "cp -a, sync", w.forking(id, ""), w.copying(tree, "-a")},
		{"reset", "cp -a, sync", w.resetting(id), w.copying(tree, "-a")},
	}
	rounds := max(1, min(w.slow(), 30_000/(s.folders*s.files)))
	for _, row := range rows {
		r, err := w.alternate(rounds, row.ours, row.floor)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		name := fmt.Sprintf("%s: workspace %s, %d files; floor: %s", k.isolation, row.name, s.folders*s.files, row.command)
		f := figure(name, "ms", r[0]).beside(r[1])
		w.figures = append(w.figures, f)
		w.add(row.name, row.command, point{s.folders * s.files, f.Median, f.Floor})
	}
	if err := w.discard(changed); err != nil {
		return err
	}
	return w.discard(id)
}

func (w *workspaces) listingTree(id string) func() (float64, error) {
	return func() (float64, error) {
		return clocked(func() error {
			_, err := w.sdk.ListWorkspaceFiles(w.ctx, pyro.ListWorkspaceFilesRequest{WorkspaceID: id, Path: ".", Recursive: true})
			return err
		})
	}
}

// comparing measures a diff without its patch. The diff must have that number of entries.
func (w *workspaces) comparing(id string, entries int) func() (float64, error) {
	return func() (float64, error) {
		return clocked(func() error {
			d, err := w.sdk.DiffWorkspace(w.ctx, pyro.DiffWorkspaceRequest{WorkspaceID: id, Stat: true})
			if err == nil && d.Summary.Added != entries {
				err = fmt.Errorf("%d added entries, not %d", d.Summary.Added, entries)
			}
			return err
		})
	}
}

// pushing measures a push of a folder that the workspace already has, with that number of files.
func (w *workspaces) pushing(id, folder string, files int) func() (float64, error) {
	return func() (float64, error) {
		return clocked(func() error {
			s, err := w.sdk.PushWorkspaceSync(w.ctx, pyro.PushWorkspaceSyncRequest{WorkspaceID: id, SourcePath: folder})
			if err == nil && s.Unchanged != files {
				err = fmt.Errorf("%d unchanged files, not %d", s.Unchanged, files)
			}
			return err
		})
	}
}

func (w *workspaces) exporting(id string) func() (float64, error) {
	return func() (float64, error) {
		w.copies++
		to := filepath.Join(w.dir, fmt.Sprintf("export-%d", w.copies))
		return clocked(func() error {
			_, err := w.sdk.ExportWorkspace(w.ctx, pyro.ExportWorkspaceRequest{WorkspaceID: id, Path: ".", OutputPath: to})
			return err
		})
	}
}
