package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/project"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// seed is the initial content of a workspace.
type seed struct {
	source archive.Source // nil if there is no content
	path   string
	mode   string
	origin string
	ref    string
	all    bool // whether to include files that git ignores
	done   archive.Summary
}

// openSeed opens a folder or an archive on the host. If path is empty, the seed has no content. If
// all is false, the seed excludes files of a folder that git ignores.
func openSeed(path string, fromProject, all bool) (*seed, error) {
	if path == "" {
		return &seed{}, nil
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	source, err := archive.Open(absolute)
	s := &seed{source: source, path: absolute, mode: modeOf(absolute), origin: "path", ref: project.Head(absolute), all: all}
	if fromProject {
		s.origin = "project"
	}
	return s, err
}

// modeOf returns whether a source is a directory or an archive.
func modeOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "directory"
	}
	return "archive"
}

func (s *seed) close() {
	if s.source != nil {
		s.source.Close()
	}
}

// fill returns the function that fills a volume, or nil if there is no content.
func (s *seed) fill(report progress.Func) storage.Seed {
	if s.source == nil {
		return nil
	}
	return func(ctx context.Context, to io.Writer) (err error) {
		report.Phase("filling the workspace", s.path)
		s.done, err = s.source.WriteTar(ctx, to, archive.Policy{Ignored: ignoredIn(ctx, s.path, s.all), Git: gitIn(s.path)})
		return err
	}
}

// ignoredIn returns a function that reports whether git ignores a file. It returns nil if all files
// must be included.
func ignoredIn(ctx context.Context, folder string, all bool) func(ctx context.Context, path string, folder bool) bool {
	if all || modeOf(folder) != "directory" {
		return nil
	}
	return project.IgnoredIn(ctx, folder).Has
}

// gitIn returns the function that makes checkouts self-contained if their .git leads out of a
// folder.
func gitIn(folder string) func(ctx context.Context, checkout string) (archive.GitFiles, string) {
	return func(ctx context.Context, checkout string) (archive.GitFiles, string) {
		r, err := project.ExternalRepository(ctx, folder, filepath.Join(folder, checkout))
		if err != nil {
			return nil, err.Error()
		}
		if r == nil {
			return nil, ""
		}
		return r.Files, ""
	}
}

// summary returns the record of the seed.
func (s *seed) summary() store.Seed {
	if s.source == nil {
		return store.Seed{Mode: "empty"}
	}
	return store.Seed{
		Mode: s.mode, Path: s.path, OriginKind: s.origin, OriginRef: s.ref, Files: s.done.Files, Directories: s.done.Directories, Symlinks: s.done.Symlinks,
		Skipped: s.done.Skipped, Ignored: s.done.Ignored, Bytes: s.done.Bytes, GitMissing: s.done.GitMissing,
	}
}

// imageSeed returns a seed with the files that an environment has in /workspace, or nil if it has
// none. The caller must call the returned function after the use of the seed.
func (m *Manager) imageSeed(ctx context.Context, w store.Workspace) (storage.Seed, func(), error) {
	ref, err := m.environmentOf(ctx, w, nil)
	if err != nil {
		return nil, nil, err
	}
	tree, err := environment.OpenTree(ref)
	if err != nil {
		ref.Close()
		return nil, nil, err
	}
	done := func() {
		tree.Close()
		ref.Close()
	}
	if entries, err := tree.ReadDir(view.Workspace); err != nil || len(entries) == 0 {
		return nil, done, nil // a missing folder, or a link, has no files
	}
	files := view.Subtree(tree, view.Workspace)
	return func(ctx context.Context, to io.Writer) error { return view.Archive(ctx, files, to) }, done, nil
}
