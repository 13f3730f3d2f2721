package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
	Mode    string // directory, archive or file.
	Dest    string
	Summary archive.Summary
	Changed remote.Changed
}

// Push copies a folder, an archive or a file from the host into a running workspace. It replaces
// files that have the same path, and keeps all others. If all is false, it excludes files that git
// ignores. dest is relative to /workspace, or absolute. A push below /workspace happens completely
// or not at all; a push to another folder is not atomic.
//
// Push leaves out files that the workspace already has, if the host can read them. It copies all
// files of an archive.
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
	p := &push{there: there, source: opened, policy: archive.Policy{Devices: archive.RefuseDevices, Ignored: ignoredIn(ctx, absolute, all), Git: gitIn(absolute)}}
	if outside {
		p.outside = path.Clean(at)
	} else {
		if p.policy.Below, err = resolved(ctx, c, into); err == nil {
			err = there.openFolder(ctx)
		}
		if err != nil {
			return Pushed{}, fault.Wrap(err, "push into workspace", id)
		}
	}
	began := time.Now()
	report.Phase("bringing it into the workspace", absolute)
	pushed := Pushed{Source: absolute, Mode: mode, Dest: path.Clean(at)}
	if pushed.Summary, pushed.Changed, err = p.run(ctx); err != nil {
		return pushed, fault.Wrap(err, "push into workspace", id)
	}
	m.addEvent(ctx, w, began, store.EventSync, store.Detail{Path: listing.Escape(pushed.Dest), Host: absolute, Files: pushed.Summary.Files, Bytes: pushed.Summary.Bytes})
	return pushed, nil
}

// push is a push in progress.
type push struct {
	there   *reader
	source  archive.Source
	policy  archive.Policy
	outside string // the target, if it is not below /workspace
}

// comparisons limits how often a push compares files. After that, it writes all of them.
const comparisons = 2

// run copies the source. If a file changes after it was compared, for example by another push, run
// repeats the copy. So in the end, all files are as they would be without the comparison. If the
// repetition fails, the first copy stays.
func (p *push) run(ctx context.Context) (summary archive.Summary, total remote.Changed, err error) {
	for n := 0; ; n++ {
		var compare *comparer
		if p.there.host != nil && n < comparisons {
			compare = newComparer(p.there, p.policy.Below)
		}
		var changed remote.Changed
		summary, changed, err = p.copy(ctx, compare)
		total.Created += changed.Created
		total.Replaced += changed.Replaced
		total.Bytes += changed.Bytes
		if err != nil || compare == nil || len(compare.found) == 0 {
			return summary, total, err
		}
		if compare.intact() && p.there.intact(ctx) == nil {
			return summary, total, nil
		}
	}
}

// copy copies the source once. If compare is not nil, it leaves out the files that the workspace
// has.
func (p *push) copy(ctx context.Context, compare *comparer) (summary archive.Summary, changed remote.Changed, err error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	policy := p.policy
	if compare != nil {
		policy.Present = func(path string, file int, st *unix.Stat_t) bool { return compare.present(reading, path, file, st) }
	}
	r, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		summary, err = p.source.WriteTar(reading, to, policy)
		if err == nil && compare != nil {
			err = compare.flush()
		}
		to.CloseWithError(err)
		written <- err
	}()
	if p.outside != "" {
		changed, err = pushOutside(ctx, p.there.client, p.outside, r)
	} else {
		changed, err = p.there.client.Change(ctx, r)
	}
	r.CloseWithError(errPushEnded)
	stop()
	given := <-written
	// The error from reading the source says more than the error from the incomplete transfer.
	if given != nil && !errors.Is(given, errPushEnded) && (!errors.Is(given, context.Canceled) || ctx.Err() != nil) {
		err = given
	}
	return summary, changed, err
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
