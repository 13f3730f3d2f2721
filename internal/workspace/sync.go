package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Pushed describes a completed push.
type Pushed struct {
	Source  string // absolute path.
	Mode    string // directory, archive or file.
	Dest    string
	Summary archive.Summary
	Changed remote.Changed
}

// Push copies a folder, an archive or a file from the host into a running workspace. It replaces
// files that have the same path, and keeps all others. It does not write files that the workspace
// already has. If all is false, it excludes files that git ignores. dest is relative to /workspace,
// or absolute. A push below /workspace happens completely or not at all; a push to another folder
// is not atomic.
func (m *Manager) Push(ctx context.Context, id, source, dest string, all bool, report progress.Func) (Pushed, error) {
	into, err := Inside(dest)
	at, invalid := Anywhere(dest)
	if invalid != nil || err != nil && !strings.HasPrefix(dest, "/") {
		return Pushed{}, cmp.Or(invalid, err)
	}
	outside := err != nil
	absolute, err := filepath.Abs(source)
	if err != nil {
		return Pushed{}, err
	}
	opened, mode, err := openPushed(absolute)
	if err != nil {
		return Pushed{}, err
	}
	defer opened.Close()
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Pushed{}, err
	}
	there := &reader{client: c, m: m, record: w}
	defer there.close()
	if err := reachable(w, at); err != nil {
		return Pushed{}, err
	}
	policy := archive.Policy{Devices: archive.RefuseDevices, Ignored: ignoredIn(ctx, absolute, all), Git: gitIn(absolute)}
	if !outside {
		if into, err = resolved(ctx, c, into); err == nil {
			err = there.openFolder(ctx)
		}
		if err != nil {
			return Pushed{}, fault.Wrap(err, "push into workspace", id)
		}
		policy.Below = into
		if there.host != nil {
			policy.Present = newComparer(ctx, there.host, into).present
		}
	}
	began := time.Now()
	pushed := Pushed{Source: absolute, Mode: mode, Dest: path.Clean(at)}
	report.Phase("bringing it into the workspace", absolute)
	r, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		pushed.Summary, err = opened.WriteTar(ctx, to, policy)
		if err == nil && pushed.Summary.Unchanged > 0 {
			// These files must be on the disk too. A program could have written them just now.
			err = os.NewSyscallError("syncfs", unix.Syncfs(int(there.folder.Fd())))
		}
		to.CloseWithError(err)
		written <- err
	}()
	if outside {
		pushed.Changed, err = pushOutside(ctx, c, pushed.Dest, r)
	} else {
		pushed.Changed, err = c.Change(ctx, r)
	}
	r.CloseWithError(errPushEnded)
	if given := <-written; given != nil && !errors.Is(given, errPushEnded) {
		err = given // the error from reading the source says more than the error from the incomplete transfer
	}
	if err != nil {
		return pushed, fault.Wrap(err, "push into workspace", id)
	}
	m.addEvent(ctx, w, began, store.EventSync, store.Detail{Path: listing.Escape(pushed.Dest), Host: absolute, Files: pushed.Summary.Files, Bytes: pushed.Summary.Bytes})
	return pushed, nil
}

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

// resolved returns a path below /workspace without symbolic links. Missing folders are allowed at
// its end. It fails if a link leads out of /workspace.
func resolved(ctx context.Context, c *remote.Client, below string) (string, error) {
	at, links := "", 0
	for left := strings.Split(below, "/"); len(left) > 0; {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", errLeadsOut(below)
			}
			at = strings.TrimSuffix(path.Dir("/" + at)[1:], "/")
			continue
		}
		next := path.Join(at, part)
		e, err := c.Stat(ctx, next)
		switch {
		case fault.KindOf(err) == fault.NotFound && !slices.Contains(left, ".."):
			return path.Join(next, path.Join(left...)), nil
		case err != nil:
			return "", err
		case e.Kind != listing.Link:
			at = next
			continue
		case path.IsAbs(e.Target):
			return "", errLeadsOut(below)
		}
		if links++; links > maxLinks {
			return "", fault.New(fault.Precondition, "find", AbsolutePath(below), "it has too many symbolic links")
		}
		left = append(strings.Split(e.Target, "/"), left...)
	}
	return at, nil
}

func errLeadsOut(below string) error {
	return fault.New(fault.Permission, "find", AbsolutePath(below), "leads out of the workspace")
}

// openPushed opens the source of a push. A regular file without the name of an archive is copied
// unchanged.
func openPushed(path string) (archive.Source, string, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !archive.Named(path) {
		return single{path}, "file", nil
	}
	source, err := archive.Open(path)
	return source, modeOf(path), err
}

// single is a file of the host that is copied unchanged.
type single struct{ path string }

func (s single) WriteTar(ctx context.Context, w io.Writer, policy archive.Policy) (archive.Summary, error) {
	path, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return archive.Summary{}, err
	}
	return archive.WritePath(ctx, w, path, filepath.Base(s.path), policy)
}

func (single) Close() error { return nil }

// pushOutside unpacks a stream in a folder outside of /workspace. It is not atomic.
func pushOutside(ctx context.Context, c *remote.Client, folder string, stream io.Reader) (remote.Changed, error) {
	u, err := c.PutMachineTree(ctx, folder, TreeOptions{SetOwner: true}, stream)
	return remote.Changed{Created: u.Files + u.Folders + u.Links - u.Replaced, Replaced: u.Replaced, Bytes: u.Bytes}, err
}

var errPushEnded = errors.New("the workspace accepts no more data")

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
