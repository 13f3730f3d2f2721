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
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Copied describes a completed copy between the host and a machine.
type Copied struct {
	Source, Dest string // absolute paths; a stream has no path
	archive.Summary
	Lost int // owners and extended attributes that the file system in the machine does not accept
}

// CopyInOptions are options of CopyIn.
type CopyInOptions struct {
	Stream     io.Reader // a tar stream, instead of a path of the host.
	KeepOwners bool      // entries keep the owners of the host, or of the stream.
	UID, GID   int       // owner of all entries, unless KeepOwners is set.
	Follow     bool      // if the source is a symbolic link, copy its target
	Progress   progress.Func
}

// CopyIn copies a file or a folder of the host into a running machine, as docker cp does:
//
//   - A file gets the path dest. If dest is a folder, the file gets its own name in this folder.
//   - A folder becomes the folder dest. If dest exists, the folder gets its own name in it, unless
//     the source ends with "/.".
//   - A stream is unpacked in the folder dest.
//
// dest is absolute, or relative to /workspace. Missing folders are created. Existing folders are
// merged, and other existing entries are replaced. CopyIn is not atomic: after an error, some
// entries can have been copied. A file gets its name only when it is complete.
func (m *Manager) CopyIn(ctx context.Context, id, source, dest string, o CopyInOptions) (Copied, error) {
	to, err := Anywhere(dest)
	if err != nil {
		return Copied{}, err
	}
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Copied{}, err
	}
	defer c.Close()
	if err := reachable(w, to); err != nil {
		return Copied{}, err
	}
	began := time.Now()
	in := copyIn{ctx, c, o}
	done, err := in.copy(source, to)
	if err != nil {
		return done, fault.Wrap(err, "copy into workspace", id)
	}
	m.addEvent(ctx, w, began, store.EventSync, store.Detail{Path: done.Dest, Host: done.Source, Files: done.Files, Bytes: done.Bytes})
	return done, nil
}

// reachable returns an error if a path can't be used because the machine is the host itself.
func reachable(w store.Workspace, at string) error {
	if w.Spec.Isolation != string(machine.None) {
		return nil
	}
	if _, err := Inside(at); err != nil {
		return fault.New(fault.Permission, "use path", at, "it is not in %s, and host_compat allows no other paths, because they belong to the host", Path)
	}
	return nil
}

// copyIn is one call of CopyIn.
type copyIn struct {
	ctx context.Context
	to  *remote.Client
	CopyInOptions
}

func (c copyIn) copy(source, dest string) (Copied, error) {
	options := TreeOptions{SetOwner: !c.KeepOwners, UID: c.UID, GID: c.GID}
	if c.Stream != nil {
		done := Copied{Dest: dest}
		counted := &counter{to: io.Discard, report: c.Progress, phase: "copying to", subject: dest}
		unpacked, err := c.to.PutMachineTree(c.ctx, dest, options, io.TeeReader(c.Stream, counted))
		done.Files, done.Directories, done.Symlinks = int(unpacked.Files), int(unpacked.Folders), int(unpacked.Links)
		done.Skipped, done.Bytes, done.Lost = int(unpacked.Skipped), unpacked.Bytes, int(unpacked.Lost)
		return done, err
	}
	from, total, isFolder, err := c.source(source)
	if err != nil {
		return Copied{}, err
	}
	folder, name, err := c.target(from, dest, isFolder, strings.HasSuffix(source, "/.") || source == ".")
	if err != nil {
		return Copied{}, err
	}
	done := Copied{Source: filepath.Clean(from), Dest: path.Join(folder, name)}
	r, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		counted := &counter{to: to, report: c.Progress, phase: "copying", subject: done.Source, total: total}
		done.Summary, err = archive.WritePath(c.ctx, counted, from, name, archive.Policy{Owners: c.KeepOwners})
		to.CloseWithError(err)
		written <- err
	}()
	unpacked, err := c.to.PutMachineTree(c.ctx, folder, options, r)
	r.CloseWithError(errPushEnded)
	if failed := <-written; failed != nil && !errors.Is(failed, errPushEnded) {
		err = failed // it says more than the error of the incomplete transfer
	}
	done.Lost = int(unpacked.Lost)
	return done, err
}

// source examines the path on the host. It returns the absolute path, whose last slash is kept, and
// the size of a file.
func (c copyIn) source(name string) (from string, size int64, isFolder bool, err error) {
	if from, err = filepath.Abs(name); err != nil {
		return "", 0, false, err
	}
	if c.Follow {
		if from, err = filepath.EvalSymlinks(from); err != nil {
			return "", 0, false, hostError(err, "copy", name)
		}
	} else if strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") {
		from += "/"
	}
	info, err := os.Lstat(from)
	if err != nil {
		return "", 0, false, hostError(err, "copy", name)
	}
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return from, size, info.IsDir(), nil
}

// hostError returns an error about a path of the host.
func hostError(err error, op, name string) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fault.Wrap(err, op, name)
}

// target returns the folder that the stream is unpacked in, and the name of a file in it. content
// means that only the content of a folder is copied.
func (c copyIn) target(from, dest string, isFolder, content bool) (folder, name string, err error) {
	clean, base := path.Clean(dest), filepath.Base(from)
	found, err := kindAt(c.ctx, c.to, clean)
	switch {
	case fault.KindOf(err) == fault.NotFound && isFolder:
		return clean, "", nil
	case fault.KindOf(err) == fault.NotFound && strings.HasSuffix(dest, "/"):
		return clean, base, nil
	case fault.KindOf(err) == fault.NotFound:
		return path.Dir(clean), path.Base(clean), nil
	case err != nil:
		return "", "", err
	case found == listing.Folder && isFolder && (content || base == "/"):
		return clean, "", nil
	case found == listing.Folder && isFolder:
		return path.Join(clean, base), "", nil
	case found == listing.Folder:
		return clean, base, nil
	case isFolder || strings.HasSuffix(dest, "/"):
		return "", "", fault.New(fault.Precondition, "copy to", clean, "it exists and is not a folder")
	}
	return path.Dir(clean), path.Base(clean), nil
}

// kindAt returns the kind of the entry at an absolute path of a machine. It follows links.
func kindAt(ctx context.Context, c *remote.Client, at string) (listing.Kind, error) {
	var found listing.Entry
	err := c.ListMachine(ctx, at, 1, func(e listing.Entry) error { // the first entry is the path itself
		found = e
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found.Kind, notListed(err)
}

// counter reports the bytes that pass through a writer, about once per MiB.
type counter struct {
	to             io.Writer
	report         progress.Func
	phase, subject string
	total          int64 // 0: unknown
	done, reported int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.done == 0 {
		c.report.Report(progress.Event{Phase: c.phase, Subject: c.subject, Total: c.total})
	}
	n, err := c.to.Write(p)
	if c.done += int64(n); c.done-c.reported >= 1<<20 {
		c.reported = c.done
		done := c.done
		if c.total > 0 { // without the headers of the archive
			done = min(done, c.total)
		}
		c.report.Report(progress.Event{Phase: c.phase, Subject: c.subject, Done: done, Total: c.total})
	}
	return n, err
}
