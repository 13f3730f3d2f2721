package storage

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/pyro-mcp/pyro/internal/disk/tree"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// bytes returns the size of the volume in bytes.
func (f Folder) bytes() int64 { return cmp.Or(f.Bytes, machine.DefaultVolumeBytes) }

// errLarge reports that a seed is larger than its volume.
var errLarge = errors.New("the seed is larger than the volume")

// full returns the error for a seed that does not fit into the volume.
func (f Folder) full() error {
	err := fault.New(fault.Exhausted, "fill /workspace", "", "the seed does not fit into its %d MiB", f.bytes()>>20)
	if f.bytes() < machine.DefaultVolumeBytes {
		more := fault.Act("workspace_create", "pyro workspace create --disk-mib N").Taking("disk_mib")
		err = err.WithHint("%s, with at most %d", more, machine.DefaultVolumeBytes>>20)
	}
	return err
}

// limited stops a tar stream that is much longer than the volume, so that a small archive can't
// fill the host's disk. The limit is not exact, because headers make the stream longer than the
// files in it.
func (t trees) limited(from io.Reader) io.Reader {
	if t.Bytes == 0 {
		return from
	}
	return &limitedReader{from, 2*t.Bytes + 64<<20}
}

type limitedReader struct {
	from io.Reader
	left int64
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// fits compares the size of the files with the size of the volume, in the same way as the machine.
func (t trees) fits(ctx context.Context, files string) error {
	if t.Bytes == 0 {
		return nil
	}
	taken, _, err := tree.Size(ctx, files)
	if err == nil && taken > t.Bytes {
		err = errLarge
	}
	return err
}
