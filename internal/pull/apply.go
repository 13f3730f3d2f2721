package pull

import (
	"archive/tar"
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// WriteTar writes the operations of the plan as a tar archive for [volume.Volume.Change]. It reads
// the files of the workspace. If the size of a file has changed since the plan was made, the error
// has the kind Unavailable.
func (p *Plan) WriteTar(ctx context.Context, to io.Writer) error {
	w := tar.NewWriter(to)
	for i := range p.operations {
		if err := p.operations[i].write(ctx, w, p.sides.Workspace); err != nil {
			return fault.Wrap(err, "bring", p.operations[i].path)
		}
	}
	return w.Close()
}

func (o *operation) write(ctx context.Context, w *tar.Writer, workspace Tree) error {
	h := &tar.Header{Name: o.path, Typeflag: tar.TypeReg, Mode: int64(o.mode), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	if o.expect != "" {
		h.PAXRecords[volume.RecordExpect] = o.expect
	}
	switch o.do {
	case removeEntry:
		h.PAXRecords[volume.RecordOperation] = "delete"
	case setMode:
		h.PAXRecords[volume.RecordOperation] = "mode"
	case makeDirectory:
		h.Typeflag, h.Name = tar.TypeDir, o.path+"/"
	case writeLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, o.link
	case writeFile:
		h.Size = o.size
		if o.keep {
			h.PAXRecords[volume.RecordKeep] = "1"
		}
	}
	if err := w.WriteHeader(h); err != nil || o.do != writeFile {
		return err
	}
	if o.content != nil {
		_, err := w.Write(o.content)
		return err
	}
	f, err := workspace.Open(ctx, o.path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch n, err := io.Copy(w, io.LimitReader(f, o.size)); {
	case err != nil:
		return err
	case n != o.size:
		return fault.Newf(fault.Unavailable, "%w", errChanged)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(f, 1)); err != nil || n > 0 {
		return fault.Newf(fault.Unavailable, "%w", errChanged)
	}
	return nil
}
