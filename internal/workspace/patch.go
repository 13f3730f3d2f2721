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
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/patch"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// ApplyPatch applies a patch to a workspace that runs: all of it or nothing. It is checked whole before anything changes, and where what it was checked against
// has changed when it is applied, nothing is.
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
	for _, f := range plan.Files[:min(len(plan.Files), store.KeptPaths)] {
		done.Paths = append(done.Paths, Outside(f.Path))
	}
	m.note(ctx, w, began, store.EventPatch, done)
	return plan, nil
}

// patched is a workspace as a patch is checked against it.
type patched struct{ client *remote.Client }

// Stat returns the entry at a path, and follows no link.
func (p patched) Stat(ctx context.Context, path string) (patch.Entry, error) {
	e, err := p.client.Stat(ctx, path)
	if fault.KindOf(err) == fault.NotFound {
		err = fs.ErrNotExist
	}
	if err != nil {
		return patch.Entry{}, err
	}
	return patch.Entry{Mode: ModeOf(&e), Size: e.Size, Link: e.Target, Identity: e.Mark().String()}, nil
}

// Read gives the content of a file.
func (p patched) Read(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	if err := p.client.ReadFile(ctx, path, 0, patch.MaxFile+1, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// List gives the names in a folder.
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

// The records of a change, see PUT /volume/change in proto/agent/v1.
const (
	changeOp     = "PYRO.op"
	changeExpect = "PYRO.expect"
	changeKeep   = "PYRO.keep"
	absent       = "absent"
)

// writePlan writes what a patch does as a change.
func writePlan(to *tar.Writer, plan *patch.Plan) error {
	replaced := map[string]bool{} // folders that go, for a file or link to take their place
	for _, o := range plan.Operations {
		h := &tar.Header{Name: o.Path, Format: tar.FormatPAX, PAXRecords: map[string]string{changeExpect: absent}, Mode: int64(unixMode(o.Mode))}
		if o.Seen != nil {
			h.PAXRecords[changeExpect] = o.Seen.Identity
		}
		switch o.Do {
		case patch.Remove:
			h.Typeflag, h.PAXRecords[changeOp] = tar.TypeReg, "delete"
		case patch.RemoveDirectory:
			h.Typeflag, h.Name, h.PAXRecords[changeOp] = tar.TypeDir, o.Path+"/", "delete"
			replaced[o.Path] = true // and it has changed by what was removed of it
		case patch.ChangeMode:
			h.Typeflag, h.PAXRecords[changeOp] = tar.TypeReg, "mode"
		case patch.WriteLink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, o.Link
		case patch.WriteFile:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(o.Content))
			if o.Seen != nil && o.Seen.Mode == o.Mode {
				h.PAXRecords[changeKeep] = "1"
			}
		}
		if replaced[o.Path] {
			delete(h.PAXRecords, changeExpect) // what is expected is what was there before the change
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

// unixMode is the mode as stat(2) has it, without the type.
func unixMode(mode fs.FileMode) uint32 {
	n := uint32(mode.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&flag != 0 {
			n |= bit
		}
	}
	return n
}

// streamOf gives a tar that is written as it is read. Closing it ends the writing.
func streamOf(write func(*tar.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		w.CloseWithError(errors.Join(write(t), t.Close()))
	}()
	return r
}

// below joins a path below the workspace with one below that.
func below(folder, name string) string {
	return strings.TrimPrefix(folder+"/"+name, "/")
}
