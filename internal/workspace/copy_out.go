package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// CopyOutOptions are options of CopyOut.
type CopyOutOptions struct {
	Stream   io.Writer // receives a tar stream, instead of a path of the host
	Progress progress.Func
}

// CopyOut copies a file or a folder out of a running machine, as docker cp does. It names
// files as CopyIn does, but the folder that contains dest must exist. The source is absolute,
// or relative to /workspace.
//
// Nothing outside of dest is written, even if the machine is hostile. The copied files belong to
// the caller and have no set-id bits. Existing folders are merged, and files are replaced. A copy
// to a new path is made completely or not at all.
func (m *Manager) CopyOut(ctx context.Context, id, source, dest string, o CopyOutOptions) (Copied, error) {
	from, err := Anywhere(source)
	if err != nil {
		return Copied{}, err
	}
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Copied{}, err
	}
	defer c.Close()
	if err := reachable(w, from); err != nil {
		return Copied{}, err
	}
	began := time.Now()
	out := copyOut{ctx, c, o}
	done, artifact, err := out.copy(from, dest, strings.HasSuffix(source, "/."))
	if err != nil {
		return done, fault.Wrap(err, "copy from workspace", id)
	}
	m.addEvent(ctx, w, began, store.EventExport, store.Detail{Path: done.Source, Host: done.Dest, Artifact: artifact, Files: done.Files, Bytes: done.Bytes})
	return done, nil
}

// copyOut is one call of CopyOut.
type copyOut struct {
	ctx  context.Context
	from *remote.Client
	CopyOutOptions
}

// copy copies the entry at an absolute path. content means that only the content of a folder is
// copied.
func (c copyOut) copy(from, dest string, content bool) (done Copied, artifact string, err error) {
	found, err := c.lookUp(path.Clean(from), strings.HasSuffix(from, "/"))
	if err != nil {
		return Copied{}, "", err
	}
	artifact, done.Source = found.Kind.String(), path.Clean(from)
	if found.Kind.Special() {
		return done, "", fault.New(fault.Precondition, "copy", done.Source, "it is a device, a pipe or a socket")
	}
	if found.Kind != listing.Folder && strings.HasSuffix(from, "/") {
		return done, "", fault.New(fault.Precondition, "copy", done.Source, "it is not a folder")
	}
	at := done.Source
	if found.Kind == listing.Folder && at != "/" {
		at += "/" // so that a link is followed
	}
	if c.Stream != nil {
		name := path.Base(done.Source)
		if content || name == "/" {
			name = "."
		}
		done.Summary, err = c.stream(at, name)
		return done, artifact, err
	}
	target, exists, err := hostTarget(dest, path.Base(done.Source), found.Kind == listing.Folder, content)
	if err != nil {
		return done, "", err
	}
	done.Dest = target
	as := "."
	if found.Kind != listing.Folder {
		as = "file" // Extract replaces the name
	}
	done.Summary, err = c.receive(at, as, func(r io.Reader) (archive.Summary, error) {
		if exists && found.Kind == listing.Folder {
			return archive.Merge(c.ctx, r, target, archive.Limits{})
		}
		return archive.Extract(c.ctx, r, target, archive.Options{Force: exists})
	})
	return done, artifact, err
}

// lookUp returns the entry at a path.
func (c copyOut) lookUp(at string, follow bool) (found listing.Entry, err error) {
	depth := 0
	if follow {
		depth = 1
	}
	err = c.from.ListMachine(c.ctx, at, depth, func(e listing.Entry) error {
		found = e
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, notListed(err)
}

// stream copies a tree to the stream, and counts its bytes.
func (c copyOut) stream(at, as string) (archive.Summary, error) {
	counted := &counter{to: c.Stream, report: c.Progress, phase: "copying", subject: at}
	err := c.from.GetMachineTree(c.ctx, at, as, counted)
	return archive.Summary{Bytes: counted.done}, err
}

// receive passes the stream of a tree to the function take.
func (c copyOut) receive(at, as string, take func(io.Reader) (archive.Summary, error)) (archive.Summary, error) {
	r, to := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := c.from.GetMachineTree(c.ctx, at, as, &counter{to: to, report: c.Progress, phase: "copying", subject: at})
		to.CloseWithError(err)
		read <- err
	}()
	summary, err := take(r)
	r.CloseWithError(errExportEnded)
	if failed := <-read; failed != nil && !errors.Is(failed, errExportEnded) && err != nil {
		err = failed
	}
	return summary, err
}

// hostTarget returns the absolute path on the host that an entry with a base name is copied to, and
// whether it exists. An existing target is of the same kind: a folder, or a file or link.
func hostTarget(dest, base string, isFolder, content bool) (target string, exists bool, err error) {
	const op = "copy to"
	absolute, err := filepath.Abs(dest)
	if err != nil {
		return "", false, err
	}
	info, err := os.Stat(absolute)
	switch {
	case errors.Is(err, os.ErrNotExist) && strings.HasSuffix(dest, "/") && !isFolder:
		return "", false, fault.New(fault.NotFound, op, absolute, "the folder does not exist").WithHint("mkdir -p %q", absolute)
	case errors.Is(err, os.ErrNotExist):
		return absolute, false, nil
	case err != nil:
		return "", false, hostError(err, op, absolute)
	case info.IsDir() && isFolder && (content || base == "/"):
		return absolute, true, nil
	case info.IsDir():
		return inFolder(filepath.Join(absolute, base), isFolder)
	case isFolder || strings.HasSuffix(dest, "/"):
		return "", false, fault.New(fault.Precondition, op, absolute, "it exists and is not a folder")
	case !info.Mode().IsRegular():
		return "", false, fault.New(fault.Precondition, op, absolute, "it is not a regular file")
	}
	return absolute, true, nil
}

// inFolder is hostTarget for an entry of an existing folder. It follows no link, because an earlier
// copy can have created it.
func inFolder(target string, isFolder bool) (string, bool, error) {
	info, err := os.Lstat(target)
	if errors.Is(err, os.ErrNotExist) {
		return target, false, nil
	}
	if err != nil {
		return "", false, hostError(err, "copy to", target)
	}
	if isFolder != info.IsDir() {
		return "", false, fault.New(fault.Precondition, "copy to", target, "it exists, and only one of the two is a folder").WithHint("copy to another name")
	}
	return target, true, nil
}
