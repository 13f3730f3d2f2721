package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/hostfolder"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/project"
	"github.com/pyro-mcp/pyro/internal/pull"
	"github.com/pyro-mcp/pyro/internal/store"
)

// PullOptions are the options of a pull.
type PullOptions struct {
	Folder         string // a folder of the host; default: the folder that the workspace was created from
	Resolve        pull.Resolution
	DryRun         bool // change nothing
	IncludeIgnored bool // also pull files that the workspace's .gitignore files ignore
	Git            bool // also fetch the commits of the workspace as a branch
	Progress       progress.Func
}

// Pulled describes the result of a pull.
type Pulled struct {
	Folder  string // absolute
	Changes []pull.Change
	Ignored int // changes that were left out, because a .gitignore file ignores them
	Counts  volume.Counts
	Branch  string // the branch with the commits, if there are any
}

// maxPulled is the maximum number of changes in a pull.
const maxPulled = 1_000_000

// Pull brings the changes of a running workspace since its baseline into a folder of the host. It
// touches nothing else, and never a directory named .git. If the host has changed an entry too,
// Resolve decides. By default Pull then changes nothing, and the error has the kind Precondition
// and lists the conflicts. A pull is atomic, even if the process is killed. But the branch with the
// commits can be new although the files are not.
func (m *Manager) Pull(ctx context.Context, id string, o PullOptions) (Pulled, error) {
	began := time.Now()
	s, err := m.sides(ctx, id)
	if err != nil {
		return Pulled{}, err
	}
	defer s.close()
	folder, err := pullTarget(s.record, o.Folder)
	if err != nil {
		return Pulled{}, err
	}
	done := Pulled{Folder: folder}
	host, err := os.OpenFile(folder, unix.O_DIRECTORY, 0)
	if err != nil {
		return done, hostError(err, "pull into", folder)
	}
	defer host.Close()
	o.Progress.Phase("comparing the workspace with its baseline", id)
	changed, err := s.compare(ctx, nil, diff.Options{IncludeIgnored: o.IncludeIgnored, EntryLimit: maxPulled})
	if err != nil {
		return done, err
	}
	if changed.EntriesTruncated {
		return done, fault.New(fault.Exhausted, "pull from workspace", id, "it has more than %d changes", maxPulled)
	}
	entries := slices.DeleteFunc(changed.Entries, func(c diff.Change) bool { return diff.GitRefuses(c.Path, false) || staged(c.Path) })
	plan, err := pull.New(ctx, entries, pull.Sides{Baseline: s.baseline, Workspace: s.current, Folder: host}, o.Resolve)
	if err != nil {
		return done, fault.Wrap(err, "pull into", folder)
	}
	done.Changes, done.Ignored = plan.Changes, changed.Summary.Ignored
	if o.DryRun {
		return done, nil
	}
	if conflicts := plan.Conflicts(); len(conflicts) > 0 {
		return done, conflictError(folder, conflicts)
	}
	if o.Git { // before the files, because git can refuse
		if done.Branch, err = m.fetchCommits(ctx, s.reader, id, folder); err != nil {
			return done, fault.Wrap(err, "fetch the commits of workspace", id)
		}
	}
	if !plan.Empty() {
		o.Progress.Phase("bringing the changes into", folder)
		done.Counts, err = m.changeFolder(ctx, folder, func(to io.Writer) error { return errors.Join(plan.WriteTar(ctx, to), s.reader.intact(ctx)) })
		if err != nil {
			return done, fault.Wrap(changedMeanwhile(err), "pull into", folder)
		}
	}
	m.addEvent(ctx, s.record, began, store.EventExport, store.Detail{
		Path: Path, Host: folder, Artifact: ArtifactChanges, Files: int(done.Counts.Created + done.Counts.Replaced), Bytes: done.Counts.Bytes,
	})
	return done, nil
}

// ArtifactChanges is the artifact name for a pull.
const ArtifactChanges = "changes"

// pullTarget returns the absolute path of the folder to pull into.
func pullTarget(w store.Workspace, folder string) (string, error) {
	if folder == "" {
		if w.Spec.Seed.Mode != "directory" {
			return "", fault.New(fault.Invalid, "pull from workspace", w.ID, "it was not created from a folder").WithHint("name the folder of the host")
		}
		return w.Spec.Seed.Path, nil
	}
	return filepath.Abs(folder)
}

// staged reports whether a path begins like the folder of package hostfolder.
func staged(path string) bool { return strings.HasPrefix(path, hostfolder.StagingPrefix) }

// changeFolder applies the operations that the function write writes to a folder of the host.
func (m *Manager) changeFolder(ctx context.Context, folder string, write func(io.Writer) error) (volume.Counts, error) {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		written <- err
	}()
	counts, err := m.Journal().Change(ctx, folder, r)
	r.CloseWithError(errExportEnded)
	if failed := <-written; failed != nil && !errors.Is(failed, errExportEnded) {
		err = failed
	}
	return counts, err
}

// Journal records the changes to folders of the host.
func (m *Manager) Journal() hostfolder.Journal { return hostfolder.Journal(m.Dirs.Changes()) }

// changedMeanwhile adds the kind to the error of an entry of the host that was modified.
func changedMeanwhile(err error) error {
	op := (*volume.OperationError)(nil)
	if errors.As(err, &op) && errors.As(op.Err, new(volume.Conflict)) {
		return fault.New(fault.Precondition, "change", op.Path, "%w", op.Err).WithHint("repeat the call")
	}
	if errors.Is(err, fs.ErrPermission) {
		return fault.Newf(fault.Permission, "%w", err)
	}
	return err
}

// maxListed is the maximum number of conflicts in an error.
const maxListed = 50

// conflictError lists the conflicts of a pull.
func conflictError(folder string, conflicts []pull.Change) error {
	var list strings.Builder
	for _, c := range conflicts[:min(len(conflicts), maxListed)] {
		fmt.Fprintf(&list, "\n  %q: %s", c.Path, c.Conflict)
	}
	if rest := len(conflicts) - maxListed; rest > 0 {
		fmt.Fprintf(&list, "\n  and %d more", rest)
	}
	resolve := func(how string) fault.Action {
		return fault.Act("workspace_sync_pull", "--%s", how).Taking("resolve %q", how)
	}
	what := "a change of the workspace does not fit the files of the host"
	if len(conflicts) > 1 {
		what = fmt.Sprintf("%d changes of the workspace do not fit the files of the host", len(conflicts))
	}
	return fault.New(fault.Precondition, "pull into", folder, "%s. Nothing was changed:%s", what, list.String()).
		WithHint("%s takes the files of the workspace, %s keeps yours, %s merges text files", resolve("theirs"), resolve("ours"), resolve("merge"))
}

// protectedIn returns the function that protects the user's files from an export that deletes.
func protectedIn(ctx context.Context, folder string) func(ctx context.Context, path string, directory bool) bool {
	ignored := project.IgnoredIn(ctx, folder)
	return func(ctx context.Context, path string, directory bool) bool {
		return staged(path) || ignored.Has(ctx, path, directory)
	}
}
