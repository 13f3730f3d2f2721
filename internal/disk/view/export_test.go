package view

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/disk/mkext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestExportKeepsAll(t *testing.T) {
	_, hosts := hostFolder(t)
	for name, v := range map[string]*FS{
		"a root and a volume":   New(root(t), volume(t)),
		"a root alone":          New(root(t), nil),
		"changes and a folder":  New(over(t, root(t), folderOf("./"), folderOf("etc/"), fileOf("etc/conf", 70_000), removed("etc/gone"), tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "etc/conf"}), hosts),
		"nothing, not a folder": New(image(t), volume(t)),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
				t.Fatal(err)
			}
			listing(t, v) // The first read sets the access times on the host.
			if err := Export(t.Context(), v, path); err != nil {
				t.Fatal(err)
			}
			tool(t, "e2fsck", "-fn", path)
			if info, err := os.Stat(path); err != nil || info.Size() != mkext4.Size {
				t.Errorf("%v, %v", info, err)
			}
			if n, _ := disk.Allocated(path); n > 2<<20 {
				t.Errorf("%d KiB for some files", n>>10)
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left: %v", left)
			}
			exported := opened(t, path)
			same(t, listing(t, exported), listing(t, v))
			if _, err := exported.Lstat("pending"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// TestKernelReadsExport mounts an exported image.
func TestKernelReadsExport(t *testing.T) {
	testenv.NeedsRoot(t, "mount")
	v, path, folder := New(root(t), volume(t)), filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := Export(t.Context(), v, path); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop,noatime", path, folder).CombinedOutput(); err != nil {
		testenv.Lacks(t, "no loop devices: ", err, ": ", string(out))
	}
	defer unix.Unmount(folder, 0)
	r, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	same(t, listing(t, Folder(r)), listing(t, v))
}

// TestExportOfHugeHole exports a file that has a size of 1 TiB and contains only a few bytes of
// data.
func TestExportOfHugeHole(t *testing.T) {
	top := t.TempDir()
	f, err := os.Create(filepath.Join(top, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("in the middle"), 1<<39+5)
	if err := errors.Join(err, f.Truncate(1<<40), f.Close()); err != nil {
		testenv.Lacks(t, err)
	}
	r, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "disk")
	if err := Export(t.Context(), New(image(t), Folder(r)), path); err != nil {
		t.Fatal(err)
	}
	// Export the image again.
	again := filepath.Join(t.TempDir(), "again")
	if err := Export(t.Context(), New(opened(t, path), nil), again); err != nil {
		t.Fatal(err)
	}
	tool(t, "e2fsck", "-fn", again)
	file, err := opened(t, again).Open("workspace/huge")
	if err != nil {
		t.Fatal(err)
	}
	start, end, err := file.(mkext4.Sparse).NextData(0)
	if err != nil || start != 1<<39 || end != 1<<39+4096 {
		t.Errorf("data from %d to %d, %v", start, end, err)
	}
	b := make([]byte, 20)
	if _, err := file.(mkext4.Sparse).ReadAt(b, 1<<39); err != nil || string(b) != "\x00\x00\x00\x00\x00in the middle\x00\x00" {
		t.Errorf("%q, %v", b, err)
	}
}

// failing is a tree with one file for which Open can fail.
type failing struct {
	Tree
	name string
	fail func() error
}

func (f failing) Open(name string) (fs.File, error) {
	if name == f.name {
		if err := f.fail(); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return f.Tree.Open(name)
}

func TestFailedExportLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		fail func() error
		want error
	}{{func() error { return broken }, broken}, {func() error { cancel(); return nil }, context.Canceled}} {
		err := Export(ctx, New(failing{root(t), "etc/conf", c.fail}, nil), path)
		if !errors.Is(err, c.want) || c.want == broken && !strings.Contains(err.Error(), "etc/conf") {
			t.Errorf("got %v", err)
		}
		if b, err := os.ReadFile(path); string(b) != "what was there" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left: %v", left)
		}
	}
	if err := Export(t.Context(), New(root(t), nil), filepath.Join(t.TempDir(), "none", "disk")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestExportToFullDisk(t *testing.T) {
	testenv.NeedsRoot(t, "make a small disk")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Lacks(t, err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	err := Export(t.Context(), New(image(t, put{name: "large", mode: reg, content: strings.Repeat("x", 4<<20)}), nil), filepath.Join(dir, "disk"))
	if fault.KindOf(err) != fault.Exhausted || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
