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

// bytes is the size of the volume.
func (f Folder) bytes() int64 { return cmp.Or(f.Bytes, machine.DefaultVolumeBytes) }

// errLarge stops a seed that is larger than its volume.
var errLarge = errors.New("the seed is larger than the volume")

// full is the error for a seed that does not fit.
func (f Folder) full() error {
	err := fault.New(fault.Exhausted, "fill /workspace", "", "the seed does not fit its %d MiB", f.bytes()>>20)
	if f.bytes() < machine.DefaultVolumeBytes {
		more := fault.Act("workspace_create", "pyro workspace create --disk-mib N").Taking("disk_mib")
		err = err.WithHint("%s, where it may be %d at most", more, machine.DefaultVolumeBytes>>20)
	}
	return err
}

// limited stops a tar stream that is so long that its files can't fit, so that a small archive can't fill
// the host's disk. Entries without content make a stream longer than its files, so this is no measure.
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

// fits measures the files of a volume, as the machine will.
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
