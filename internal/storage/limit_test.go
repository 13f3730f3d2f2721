package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// TestOversizedSeedFails checks that a seed larger than the volume fails and leaves no files.
func TestOversizedSeedFails(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		f.Bytes = 16 << 20 // the minimum of block storage
		many := map[string]string{}
		for i := range 20 {
			many[strings.Repeat("n", i+1)] = strings.Repeat("x", 1<<20)
		}
		small := map[string]string{}
		for i := range 6_000 {
			small[fmt.Sprint("d/", i)] = "x"
		}
		small["d/"] = ""
		for name, files := range map[string]map[string]string{
			"one file": {"a": strings.Repeat("x", 17<<20)}, "many files": many, "small files": small, "far too much": {"a": strings.Repeat("x", 100<<20)},
		} {
			_, err := f.Create(t.Context(), seedOf(files))
			if fault.KindOf(err) != fault.Exhausted || !strings.Contains(err.Error(), "does not fit into its 16 MiB") || !strings.Contains(fault.HintOf(err), "--disk-mib") {
				t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
			}
			if err != nil && strings.Contains(err.Error(), f.Path) {
				t.Errorf("%s: %v", name, err)
			}
			check(t, f.Sweep(t.Context()))
		}
		if left := names(t, f); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		fits := map[string]string{"a": strings.Repeat("x", 9<<20)}
		d, err := f.Create(t.Context(), seedOf(fits))
		check(t, err)
		wantFiles(t, f, d, fits)
	})
}

// TestVolumeSize checks the volume size that the machine gets, and the size of copies of the disks.
func TestVolumeSize(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		for _, size := range []int64{0, 64 << 20, 100 << 20, 5 << 30} {
			f := f.beside(filepath.Base(t.TempDir()))
			f.Bytes = size
			d, err := f.Create(t.Context(), nil)
			check(t, err)
			flat, err := f.Flatten(t.Context(), d)
			check(t, err)
			if !f.Blocks {
				if got := f.Machine(d).Tree.Bytes; got != size {
					t.Errorf("the machine gets %d, not %d", got, size)
				}
				continue
			}
			for _, layer := range []string{d.Volume[0], flat.Volume[0]} {
				if got, want := fileSystem(t, f.path(layer)), f.bytes(); got > want || got < want-5<<19 {
					t.Errorf("the file system has %d bytes, not %d", got, want)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(f.Shared, blankImage)); f.Blocks == errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the shared image: %v", err)
		}
	})
	if machine.DefaultVolumeBytes != mkext4.Size {
		t.Error("the default sizes of a volume and an image differ")
	}
}

// fileSystem returns the size of an ext4 file system in bytes, according to its superblock.
func fileSystem(t *testing.T, path string) int64 {
	t.Helper()
	image, err := os.Open(path)
	check(t, err)
	defer image.Close()
	b := make([]byte, 4)
	_, err = image.ReadAt(b, 1024+4)
	check(t, err)
	return int64(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24) * 4096
}
