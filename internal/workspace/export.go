package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
)

// Exported describes a completed export.
type Exported struct {
	Path     string
	Output   string // absolute path.
	Artifact string // file, directory or symlink.
	archive.Updated
}

// ExportOptions are the options of an export.
type ExportOptions struct {
	Force  bool // replace an existing file, or write into an existing folder.
	Delete bool // if Force is set, also delete files that the exported folder does not have.
	DryRun bool // if Delete is set, only return the paths that would be deleted.

	// IncludeGit also writes folders named .git into an existing folder. They contain hooks and
	// settings, which are commands that git runs on the host.
	IncludeGit bool
}

// Export copies a file or a folder from a running workspace to a path on the host. It copies
// everything or nothing, even if the process is killed. Without Force, an existing target is an
// error. In an existing folder, files are added and replaced, except folders named .git, unless
// IncludeGit is set. Delete also deletes files, except .git and files that git ignores.
func (m *Manager) Export(ctx context.Context, id, path, output string, o ExportOptions) (Exported, error) {
	if (o.Delete && !o.Force) || (o.DryRun && !o.Delete) {
		return Exported{}, fault.New(fault.Invalid, "export", path, "delete needs force, and a dry run needs delete")
	}
	inside, err := Inside(path)
	if err != nil {
		return Exported{}, err
	}
	absolute, err := filepath.Abs(output)
	if err != nil {
		return Exported{}, err
	}
	from, err := m.reader(ctx, id, inside, true)
	if err != nil {
		return Exported{}, err
	}
	defer from.close()
	began := time.Now()
	found, err := stat(ctx, from.client, inside)
	if err != nil {
		return Exported{}, err
	}
	if found.Kind.Special() {
		return Exported{}, fault.New(fault.Precondition, "export", AbsolutePath(inside), "it is a device, a pipe or a socket")
	}
	exists, err := exportTarget(absolute, found.Kind, o)
	if err != nil {
		return Exported{}, err
	}
	r, to := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := from.tree(ctx, inside, to)
		to.CloseWithError(err)
		read <- err
	}()
	done := Exported{Path: AbsolutePath(inside), Output: absolute, Artifact: found.Kind.String()}
	if exists && found.Kind == listing.Folder {
		update := archive.UpdateOptions{Delete: o.Delete, DryRun: o.DryRun, Protected: protectedIn(ctx, absolute), Apply: m.Journal().Change}
		if !o.IncludeGit {
			update.Omit = func(path string) bool { return diff.GitRefuses(path, false) }
		}
		done.Updated, err = archive.Update(ctx, r, absolute, update)
	} else {
		done.Summary, err = archive.Extract(ctx, r, absolute, archive.Options{Force: o.Force})
	}
	r.CloseWithError(errExportEnded)
	if given := <-read; given != nil && !errors.Is(given, errExportEnded) && err != nil {
		err = given
	}
	if err != nil {
		return done, fault.Wrap(err, "export", AbsolutePath(inside))
	}
	if o.DryRun {
		return done, nil
	}
	m.addEvent(ctx, from.record, began, store.EventExport, store.Detail{
		Path: done.Path, Host: absolute, Artifact: done.Artifact, Files: done.Summary.Files, Bytes: done.Summary.Bytes,
	})
	return done, nil
}

// exportTarget checks an existing target of an export, and reports whether it exists. Without
// Force, Extract reports an existing target.
func exportTarget(target string, kind listing.Kind, o ExportOptions) (exists bool, err error) {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !o.Force {
		return false, nil
	}
	if err != nil {
		return false, hostError(err, "export to", target)
	}
	switch folder := kind == listing.Folder; {
	case folder && info.Mode()&fs.ModeSymlink != 0:
		return false, fault.New(fault.Precondition, "export to", target, "it is a symbolic link, which an export does not follow").WithHint("name the folder that it points to")
	case folder && !info.IsDir():
		return false, fault.New(fault.Precondition, "export to", target, "it exists and is not a folder, but the export is one")
	case !folder && info.IsDir():
		return false, fault.New(fault.Precondition, "export to", target, "it is a folder, but the export is not one").WithHint("name a file in the folder")
	case !folder && info.Mode()&^fs.ModePerm&fs.ModeType&^fs.ModeSymlink != 0:
		return false, fault.New(fault.Precondition, "export to", target, "it is not a regular file")
	}
	return true, nil
}

// ArtifactDisk is the artifact name for an export of the disks.
const ArtifactDisk = "disk"

var errExportEnded = errors.New("the export has ended")
