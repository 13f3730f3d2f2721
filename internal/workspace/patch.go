package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/patch"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// ApplyPatch applies a patch to a running workspace, either completely or not at all. It first
// checks the whole patch. If a file changes between the check and the write, ApplyPatch changes
// nothing.
func (m *Manager) ApplyPatch(ctx context.Context, id string, text []byte) (*patch.Plan, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	began := time.Now()
	plan, err := patch.Check(ctx, text, patched{c})
	if err != nil {
		return nil, err
	}
	if len(plan.Operations) == 0 {
		return plan, nil
	}
	if _, err = c.Change(ctx, streamOf(func(to *tar.Writer) error { return writePlan(to, plan) })); err != nil {
		return plan, fault.Wrap(err, "apply patch to workspace", id)
	}
	done := store.Detail{Files: len(plan.Files), LinesAdded: plan.Summary.LinesAdded, LinesRemoved: plan.Summary.LinesRemoved}
	for _, f := range plan.Files[:min(len(plan.Files), store.MaxEventPaths)] {
		done.Paths = append(done.Paths, AbsolutePath(f.Path))
	}
	m.addEvent(ctx, w, began, store.EventPatch, done)
	return plan, nil
}

// patched is the tree of a workspace, as package patch needs it.
type patched struct{ client *remote.Client }

// Stat returns the entry at a path. It does not follow links.
func (p patched) Stat(ctx context.Context, path string) (patch.Entry, error) {
	e, err := p.client.Stat(ctx, path)
	if fault.KindOf(err) == fault.NotFound {
		err = fs.ErrNotExist
	}
	if err != nil {
		return patch.Entry{}, err
	}
	return patch.Entry{Mode: e.FileMode(), Size: e.Size, Link: e.Target, Identity: e.Mark().String()}, nil
}

// Read returns the content of a file.
func (p patched) Read(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	if err := p.client.ReadFile(ctx, path, 0, patch.MaxFile+1, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// List returns the names in a folder.
func (p patched) List(ctx context.Context, path string) ([]string, error) {
	var names []string
	err := p.client.List(ctx, path, false, func(e listing.Entry) error {
		if e.Path != "" {
			names = append(names, e.Path)
		}
		return nil
	})
	return names, err
}

// absent is the expectation that a path has no entry.
const absent = "absent"

// writePlan writes the changes of a patch as a tar archive.
func writePlan(to *tar.Writer, plan *patch.Plan) error {
	replaced := map[string]bool{} // folders that are replaced by a file or link
	for _, o := range plan.Operations {
		h := &tar.Header{Name: o.Path, Format: tar.FormatPAX, PAXRecords: map[string]string{volume.RecordExpect: absent}, Mode: int64(unixMode(o.Mode))}
		if o.Seen != nil {
			h.PAXRecords[volume.RecordExpect] = o.Seen.Identity
		}
		switch o.Do {
		case patch.Remove:
			h.Typeflag, h.PAXRecords[volume.RecordOperation] = tar.TypeReg, "delete"
		case patch.RemoveDirectory:
			h.Typeflag, h.Name, h.PAXRecords[volume.RecordOperation] = tar.TypeDir, o.Path+"/", "delete"
			replaced[o.Path] = true // removing the content has changed the folder
		case patch.ChangeMode:
			h.Typeflag, h.PAXRecords[volume.RecordOperation] = tar.TypeReg, "mode"
		case patch.WriteLink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, o.Link
		case patch.WriteFile:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(o.Content))
			if o.Seen != nil && o.Seen.Mode == o.Mode {
				h.PAXRecords[volume.RecordKeep] = "1"
			}
		}
		if replaced[o.Path] {
			delete(h.PAXRecords, volume.RecordExpect) // the expectation describes the state before the removals
		}
		if err := to.WriteHeader(h); err != nil {
			return err
		}
		if _, err := to.Write(o.Content); err != nil {
			return err
		}
	}
	return nil
}

// unixMode returns a mode in the form of stat(2), without the file type.
func unixMode(mode fs.FileMode) uint32 {
	n := uint32(mode.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&flag != 0 {
			n |= bit
		}
	}
	return n
}

// streamOf returns a reader of a tar archive, which the function write writes at the same time.
// Closing the reader stops the writing.
func streamOf(write func(*tar.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		w.CloseWithError(errors.Join(write(t), t.Close()))
	}()
	return r
}

// below joins a folder below the workspace and a name in that folder.
func below(folder, name string) string {
	return strings.TrimPrefix(folder+"/"+name, "/")
}
