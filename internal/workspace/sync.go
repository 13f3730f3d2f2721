package workspace

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
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

// Pushed describes a completed push.
type Pushed struct {
	Source  string // absolute path.
	Mode    string // directory or archive.
	Dest    string
	Summary archive.Summary
	Changed remote.Changed
}

// Push copies a folder or an archive from the host into a running workspace. It replaces files that
// have the same path, and keeps all others. If all is false, it excludes files that git ignores.
// dest is relative to /workspace, or absolute. A push below /workspace happens completely or not at
// all; a push to another folder is not atomic.
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
	opened, err := archive.Open(absolute)
	if err != nil {
		return Pushed{}, err
	}
	defer opened.Close()
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Pushed{}, err
	}
	defer c.Close()
	if err := reachable(w, at); err != nil {
		return Pushed{}, err
	}
	began := time.Now()
	pushed := Pushed{Source: absolute, Mode: modeOf(absolute), Dest: path.Clean(at)}
	report.Phase("bringing it into the workspace", absolute)
	r, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		pushed.Summary, err = opened.WriteTar(ctx, to, archive.Policy{Devices: archive.RefuseDevices, Ignored: ignoredIn(ctx, absolute, all)})
		to.CloseWithError(err)
		written <- err
	}()
	stream := r
	body := io.ReadCloser(stream)
	if into != "" {
		body = streamOf(func(to *tar.Writer) error { return moved(to, stream, into) })
	}
	if outside {
		pushed.Changed, err = pushOutside(ctx, c, pushed.Dest, body)
	} else {
		pushed.Changed, err = c.Change(ctx, body)
	}
	body.Close()
	r.CloseWithError(errPushEnded)
	if given := <-written; given != nil && !errors.Is(given, errPushEnded) {
		err = given // the error from reading the source says more than the error from the incomplete transfer
	}
	if err != nil {
		return pushed, fault.Wrap(err, "push into workspace", id)
	}
	m.note(ctx, w, began, store.EventSync, store.Detail{Path: pushed.Dest, Host: absolute, Files: pushed.Summary.Files, Bytes: pushed.Summary.Bytes})
	return pushed, nil
}

// pushOutside unpacks a stream in a folder outside of /workspace. It is not atomic.
func pushOutside(ctx context.Context, c *remote.Client, folder string, stream io.Reader) (remote.Changed, error) {
	u, err := c.PutMachineTree(ctx, folder, TreeOptions{SetOwner: true}, stream)
	return remote.Changed{Created: u.Files + u.Folders + u.Links - u.Replaced, Replaced: u.Replaced, Bytes: u.Bytes}, err
}

var errPushEnded = errors.New("the workspace takes no more")

// moved copies a tar archive and moves all its entries below a folder.
func moved(to *tar.Writer, from io.Reader, folder string) error {
	in := tar.NewReader(from)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h.Name, h.Format = below(folder, h.Name), tar.FormatPAX
		if h.Typeflag == tar.TypeLink {
			h.Linkname = below(folder, h.Linkname)
		}
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(to, in); err != nil {
			return err
		}
	}
}

// Exported describes a completed export.
type Exported struct {
	Path     string
	Output   string // absolute path.
	Artifact string // file, directory or symlink.
	Summary  archive.Summary
}

// Export copies a file or a folder from a running workspace to a path on the host, either
// completely or not at all. An existing target is replaced only if force is true.
func (m *Manager) Export(ctx context.Context, id, path, output string, force bool) (Exported, error) {
	inside, err := Inside(path)
	if err != nil {
		return Exported{}, err
	}
	absolute, err := filepath.Abs(output)
	if err != nil {
		return Exported{}, err
	}
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Exported{}, err
	}
	defer c.Close()
	began := time.Now()
	found, err := stat(ctx, c, inside)
	if err != nil {
		return Exported{}, err
	}
	if found.Kind == listing.Other {
		return Exported{}, fault.New(fault.Precondition, "export", Outside(inside), "it is a device, a pipe or a socket")
	}
	r, to := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := c.ReadTree(ctx, inside, to)
		to.CloseWithError(err)
		read <- err
	}()
	done := Exported{Path: Outside(inside), Output: absolute, Artifact: found.Kind.String()}
	done.Summary, err = archive.Extract(ctx, r, absolute, archive.Options{Force: force})
	r.CloseWithError(errExportEnded)
	if given := <-read; given != nil && !errors.Is(given, errExportEnded) && err != nil {
		err = given
	}
	if err != nil {
		return done, fault.Wrap(err, "export", Outside(inside))
	}
	m.note(ctx, w, began, store.EventExport, store.Detail{
		Path: done.Path, Host: absolute, Artifact: done.Artifact, Files: done.Summary.Files, Bytes: done.Summary.Bytes,
	})
	return done, nil
}

// ArtifactDisk is the artifact name for an export of the disks.
const ArtifactDisk = "disk"

var errExportEnded = errors.New("the export has ended")
