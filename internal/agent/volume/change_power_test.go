package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// disk is a mounted ext4 image.
type disk struct{ image, at string }

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	testenv.NeedsRoot(t, "mount disks")
	dir := volumetest.InMemory(t)
	d := &disk{image: filepath.Join(dir, "image"), at: filepath.Join(dir, "at")}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 8<<20), os.Mkdir(d.at, 0o755)); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-J", "size=1", "-b", "1024", d.image)
	if out, err := exec.Command("mount", "-o", "loop,noatime", d.image, d.at).CombinedOutput(); err != nil {
		testenv.Lacks(t, "mounts of disks: ", string(out))
	}
	t.Cleanup(func() { unix.Unmount(d.at, 0) })
	return d
}

// TestNoSpace fills the disk so that a change runs out of space at different steps. It checks that
// the change then fails without any effect.
func TestNoSpace(t *testing.T) {
	testenv.NeedsRoot(t, "mount disks")
	x := newTrial(t, 0, LocalFS)
	random := rand.New(rand.NewSource(1))
	var edits []volumetest.Edit
	for i := range 30 {
		edits = append(edits, volumetest.Edit{Path: fmt.Sprintf("many/%d/file", i), Text: string(bytes.Repeat([]byte{'x'}, random.Intn(20_000)))})
	}
	more := volumetest.Archive(t, append(edits, everyEdit...)...)
	for name, options := range map[string]string{"space": "size=4m", "inodes": "size=16m,nr_inodes=300", "ext4": ""} {
		t.Run(name, func(t *testing.T) {
			var at string
			if name == "ext4" {
				at = newDisk(t).at
			} else {
				at = t.TempDir()
				if err := unix.Mount("tmpfs", at, "tmpfs", 0, options); err != nil {
					testenv.Lacks(t, err)
				}
				defer unix.Unmount(at, unix.MNT_DETACH)
			}
			dir := filepath.Join(at, "volume")
			done, refused := 0, 0
			for n := 0; n < 120; n++ {
				copyTree(t, x.pristine, dir)
				s := storedIn(t, dir)
				fill(t, filepath.Join(at, "ballast"), name == "inodes", int64(n))
				_, err := s.change(t, more)
				s.close(t)
				os.RemoveAll(filepath.Join(at, "ballast"))
				switch {
				case err == nil:
					done++
				case errors.Is(err, unix.ENOSPC):
					refused++
					if got := volumetest.Tree(t, s.files); got != x.old {
						t.Fatalf("with %d steps left: got\n%s\nwant\n%s", n, got, x.old)
					}
				default:
					t.Errorf("with %d left: %v", n, err)
				}
				volumetest.NothingPending(t, dir)
			}
			if t.Logf("%d done, %d refused", done, refused); done == 0 || refused < 20 {
				t.Errorf("%d done, %d refused: the test covered too little", done, refused)
			}
		})
	}
}

// fill fills a file system until only a small part is free. left is this part, in units of 8 KiB.
// If inodes is true, left is instead a number of inodes.
func fill(t testing.TB, dir string, inodes bool, left int64) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if inodes {
		for i := range int64(st.Ffree) - left {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := int64(st.Bfree)*st.Bsize - left*8192; n > 0 {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil && err != unix.ENOSPC {
			t.Fatal(err)
		}
	}
}

// TestPowerFailure simulates a power failure after every step, so that unflushed data is lost. In
// some runs, the kernel has already flushed part of the data. The size of this part differs between
// the runs.
func TestPowerFailure(t *testing.T) {
	for i, often := range []int{0, 0, 30, 30, 100} {
		if testing.Short() && (i == 0 || i == 4) { // the other rounds cover both kinds
			continue
		}
		kind := FSKind(i % 2)
		t.Run(fmt.Sprintf("flushed=%d%%/single=%t", often, kind == PassthroughFS), func(t *testing.T) {
			d := newDisk(t)
			x := newTrial(t, 0, kind)
			run(t, "cp", "-aT", x.pristine, d.at)
			unix.Sync()
			random := rand.New(rand.NewSource(int64(often)))
			var left []string // copies of the disk, one for each step
			cut := func() {
				image := fmt.Sprintf("%s.%d", d.image, len(left))
				run(t, "cp", "--sparse=always", d.image, image)
				left = append(left, image)
			}
			root, err := os.Open(d.at)
			if err != nil {
				t.Fatal(err)
			}
			v := newVolume(root, kind)
			if _, err := v.open(); err != nil {
				t.Fatal(err)
			}
			v.hook = func(string) error {
				if random.Intn(100) < often {
					if err := unix.Syncfs(int(root.Fd())); err != nil {
						t.Error(err)
					}
				}
				cut()
				return nil
			}
			_, err = v.Change(context.Background(), bytes.NewReader(x.archive))
			if err != nil {
				t.Fatal(err)
			}
			cut()
			v.closeFiles()
			if err := unix.Unmount(d.at, 0); err != nil {
				t.Fatal(err)
			}
			news := 0
			for i, image := range left {
				run(t, "mount", "-o", "loop,noatime", image, d.at)
				isNew, _ := (&copied{dir: d.at}).whole(t, x, fmt.Sprintf("power lost at %d of %d", i, len(left)))
				if err := unix.Unmount(d.at, 0); err != nil {
					t.Fatal(err)
				}
				run(t, "e2fsck", "-fn", image)
				os.Remove(image)
				if isNew {
					news++
				} else if news > 0 {
					t.Errorf("the old tree again at %d of %d", i, len(left))
				}
			}
			if t.Logf("%d times cut, %d times the new tree", len(left), news); news < 1 || len(left) < 50 || news > len(left)-20 {
				t.Errorf("cut %d times, %d times the new tree: the test covered too little", len(left), news)
			}
		})
	}
}
