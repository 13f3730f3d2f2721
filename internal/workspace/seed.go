package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/project"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
)

// seed is what a workspace is first filled with.
type seed struct {
	source archive.Source // nil: nothing
	path   string
	mode   string
	origin string
	ref    string
	all    bool // also what git ignores
	done   archive.Summary
}

// openSeed opens a folder or an archive of the host. An empty path is no seed. Of a folder it leaves
// out what git ignores, unless all is wanted.
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

// modeOf says what a source is.
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

// fill gives the function that fills a volume, nil where there is nothing to fill it with.
func (s *seed) fill(report progress.Func) storage.Seed {
	if s.source == nil {
		return nil
	}
	return func(ctx context.Context, to io.Writer) (err error) {
		report.Phase("filling the workspace", s.path)
		s.done, err = s.source.WriteTar(ctx, to, archive.Policy{Ignored: ignoredIn(ctx, s.path, s.all)})
		return err
	}
}

// ignoredIn gives what tells whether git ignores a file of a folder; nil if all is wanted.
func ignoredIn(ctx context.Context, folder string, all bool) func(ctx context.Context, path string, folder bool) bool {
	if all || modeOf(folder) != "directory" {
		return nil
	}
	return project.IgnoredIn(ctx, folder).Has
}

// summary is what is kept of it.
func (s *seed) summary() store.Seed {
	if s.source == nil {
		return store.Seed{Mode: "empty"}
	}
	return store.Seed{
		Mode: s.mode, Path: s.path, OriginKind: s.origin, OriginRef: s.ref, Files: s.done.Files, Directories: s.done.Directories, Symlinks: s.done.Symlinks,
		Skipped: s.done.Skipped, Ignored: s.done.Ignored, Bytes: s.done.Bytes,
	}
}
