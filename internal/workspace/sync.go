package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/archive"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Pushed says what a push brought.
type Pushed struct {
	Source  string // absolute
	Mode    string // directory or archive
	Dest    string
	Summary archive.Summary
	Changed remote.Changed
}

// Push brings a folder or an archive of the host into a workspace that runs: all of it or nothing. What is there stays, but for what has the same path.
// What git ignores in the folder is left out, unless all is wanted.
func (m *Manager) Push(ctx context.Context, id, path, dest string, all bool, report progress.Func) (Pushed, error) {
	into, err := Inside(dest)
	if err != nil {
		return Pushed{}, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Pushed{}, err
	}
	source, err := archive.Open(absolute)
	if err != nil {
		return Pushed{}, err
	}
	defer source.Close()
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Pushed{}, err
	}
	defer c.Close()
	began := time.Now()
	pushed := Pushed{Source: absolute, Mode: modeOf(absolute), Dest: Outside(into)}
	report.Phase("bringing it into the workspace", absolute)
	r, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		pushed.Summary, err = source.WriteTar(ctx, to, archive.Policy{Devices: archive.RefuseDevices, Ignored: ignoredIn(ctx, absolute, all)})
		to.CloseWithError(err)
		written <- err
	}()
	stream := r
	body := io.ReadCloser(stream)
	if into != "" {
		body = streamOf(func(to *tar.Writer) error { return moved(to, stream, into) })
	}
	pushed.Changed, err = c.Change(ctx, body)
	body.Close()
	r.CloseWithError(errPushEnded)
	if given := <-written; given != nil && !errors.Is(given, errPushEnded) {
		err = given // what could not be read tells more than that not all of it arrived
	}
	if err != nil {
		return pushed, fault.Wrap(err, "push into workspace", id)
	}
	m.note(ctx, w, began, store.EventSync, store.Detail{Path: pushed.Dest, Host: absolute, Files: pushed.Summary.Files, Bytes: pushed.Summary.Bytes})
	return pushed, nil
}

var errPushEnded = errors.New("the workspace takes no more")

// moved writes a tar anew with all that is in it below a folder.
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

// Exported says what an export took out.
type Exported struct {
	Path    string
	Output  string // absolute
	Kind    listing.Kind
	Summary archive.Summary
}

// Export takes a file or a folder out of a workspace that runs, to a path on the host: all of it or nothing. What is there is replaced only with force.
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
	done := Exported{Path: Outside(inside), Output: absolute, Kind: found.Kind}
	done.Summary, err = archive.Extract(ctx, r, absolute, archive.Options{Force: force})
	r.CloseWithError(errExportEnded)
	if given := <-read; given != nil && !errors.Is(given, errExportEnded) && err != nil {
		err = given
	}
	if err != nil {
		return done, fault.Wrap(err, "export", Outside(inside))
	}
	m.note(ctx, w, began, store.EventExport, store.Detail{
		Path: done.Path, Host: absolute, Artifact: artifacts[found.Kind], Files: done.Summary.Files, Bytes: done.Summary.Bytes,
	})
	return done, nil
}

// artifacts name what is exported.
var artifacts = map[listing.Kind]string{listing.File: "file", listing.Folder: "directory", listing.Link: "symlink"}

// ArtifactDisk is the export of a workspace's disks.
const ArtifactDisk = "disk"

var errExportEnded = errors.New("the export has ended")
