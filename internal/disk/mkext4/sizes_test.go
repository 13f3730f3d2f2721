package mkext4

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const mib = 1 << 20

// sizes are file system sizes: a single group, the limits of groups and of flex groups, and values
// between them.
var sizes = []int64{
	MinSize, 64 * mib, 100 * mib, 128*mib - 4096, 128 * mib, 128*mib + 4096, 129 * mib, 200*mib + 12345, 256 * mib, 1 << 30, 1<<30 + mib, 2<<30 - mib, 2 << 30, 2<<30 + mib, 2<<30 + 3*mib,
	5 << 30, 5<<30 + 77*mib, Size - mib, Size,
}

// filler is long because each read is slow under the race detector.
var filler = bytes.Repeat([]byte("x"), 1<<20)

// TestFileSystemsOfAllSizes runs e2fsck on file systems that contain one small file. It also runs
// e2fsck on file systems that contain a file that uses almost every block.
func TestFileSystemsOfAllSizes(t *testing.T) {
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w, path := beginSized(t, size)
			e, content := text("small")
			w.mustAdd(t, "folder/small", e, content)
			if bytes := int64(w.layout.blocks) * blockSize; bytes > size || bytes < size-5*mib/2-blockSize {
				t.Errorf("the file system has %d bytes", bytes)
			}
			finished(t, w, path)
			if info, err := os.Stat(path); err != nil || info.Size() != Size {
				t.Errorf("%v, %v", info, err)
			}
			if size > 256*mib || testing.Short() && size > 129*mib {
				return
			}
			w, path = beginSized(t, size)
			free := int64(w.layout.blocks-w.layout.dataAt()) * blockSize
			// The extents of the file and two directories need blocks too. There might also be a
			// backup group in the middle.
			free -= 8 * blockSize
			w.mustAdd(t, "large", Entry{Mode: regular, Size: free}, io.LimitReader(&repeating{what: filler}, free))
			finished(t, w, path)
			w, _ = beginSized(t, size)
			err := w.Add("large", Entry{Mode: regular, Size: size}, io.LimitReader(&repeating{what: filler}, size))
			if fault.KindOf(err) != fault.Exhausted {
				t.Errorf("a file of its size: %v", err)
			}
		})
	}
	for _, size := range []int64{-1, 0, MinSize - 1, Size + 1} {
		f, err := os.Create(filepath.Join(t.TempDir(), "image"))
		must(t, err)
		defer f.Close()
		if _, err := New(f, Identity{}, size); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestKernelFillsFileSystemsOfAllSizes lets the kernel fill file systems of several sizes, and
// checks them with e2fsck.
func TestKernelFillsFileSystemsOfAllSizes(t *testing.T) {
	for _, size := range []int64{MinSize, 64 * mib, 100 * mib, 129 * mib, 1 << 30, 2<<30 + 3*mib, 5<<30 + 77*mib} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w, path := beginSized(t, size)
			must(t, w.Finish())
			folder, unmount := mounted(t, path)
			for i := range 200 {
				must(t, os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), bytes.Repeat([]byte("x"), i*50), 0o644))
			}
			var st unix.Statfs_t
			must(t, unix.Statfs(folder, &st))
			if total := int64(st.Blocks) * st.Bsize; total > size || total < size*60/100 || size >= 64*mib && total < size*90/100 {
				t.Errorf("statfs shows %d bytes", total)
			}
			f, err := os.Create(filepath.Join(folder, "rest"))
			must(t, err)
			free := int64(st.Bavail) * st.Bsize
			if err := unix.Fallocate(int(f.Fd()), 0, 0, free*98/100); err != nil {
				t.Errorf("fill 98 %% of the free space: %v", err)
			}
			if err := unix.Fallocate(int(f.Fd()), 0, free*98/100, size/10); err != unix.ENOSPC {
				t.Errorf("more than is free: %v", err)
			}
			must(t, f.Close())
			unmount()
			clean(t, path)
		})
	}
}
