package storage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// both runs a test for each kind of storage. Each run has its own folder.
func both(t *testing.T, test func(*testing.T, Folder)) {
	for _, kind := range []string{"blocks", "trees", "linked trees"} {
		t.Run(kind, func(t *testing.T) {
			top := t.TempDir()
			test(t, Folder{Path: filepath.Join(top, "one"), Blocks: kind == "blocks", Links: kind == "linked trees", Shared: filepath.Join(top, "shared")})
		})
	}
}

// beside returns another folder next to f, with the same shared folder.
func (f Folder) beside(name string) Folder {
	f.Path = filepath.Join(filepath.Dir(f.Path), name)
	return f
}

// seedOf returns a seed with the given files. A name that ends with a slash is a folder. Content
// that begins with ">" is the target of a symbolic link.
func seedOf(files map[string]string) Seed {
	return func(ctx context.Context, to io.Writer) error {
		w := tar.NewWriter(to)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			h := &tar.Header{Name: name, Mode: 0o640, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Format: tar.FormatPAX}
			target, link := strings.CutPrefix(files[name], ">")
			switch {
			case link:
				h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
			case strings.HasSuffix(name, "/"):
				h.Typeflag, h.Mode = tar.TypeDir, 0o750
			}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if h.Typeflag == tar.TypeReg {
				if _, err := io.WriteString(w, files[name]); err != nil {
					return err
				}
			}
		}
		return w.Close()
	}
}

// contents returns the files of a volume, in the format that seedOf accepts.
func contents(t testing.TB, f Folder, layers []string) map[string]string {
	t.Helper()
	files, err := f.OpenFiles(layers)
	check(t, err)
	defer files.Close()
	return read(t, files, ".")
}

func read(t testing.TB, tree fs.FS, from string) map[string]string {
	t.Helper()
	all := map[string]string{}
	links := tree.(interface{ ReadLink(string) (string, error) })
	check(t, fs.WalkDir(tree, from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		name := strings.TrimPrefix(path, from+"/")
		switch {
		case d.IsDir():
			all[name+"/"] = ""
		case d.Type() == fs.ModeSymlink:
			target, err := links.ReadLink(path)
			all[name] = ">" + target
			return err
		default:
			b, err := fs.ReadFile(tree, path)
			all[name] = string(b)
			return err
		}
		return nil
	}))
	return all
}

func wantFiles(t testing.TB, f Folder, d store.Disks, want map[string]string) {
	t.Helper()
	if got := contents(t, f, d.Volume); !maps.Equal(got, want) {
		t.Errorf("in %v are %q, want %q", d.Volume, got, want)
	}
}

// names returns the names of the disks in a folder.
func names(t testing.TB, f Folder) []string {
	t.Helper()
	entries, err := os.ReadDir(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// write changes the content of a volume without a machine. It writes a file to a tree. To an image
// it writes blocks with qemu-io, and specifies the layers in the same way as QEMU does.
func write(t testing.TB, f Folder, d store.Disks, text string) {
	t.Helper()
	if !f.Blocks {
		path := filepath.Join(f.Machine(d).Tree.Folder, filesFolder, "written")
		check(t, os.WriteFile(path+".new", []byte(text), 0o644)) // machines don't write to shared files
		check(t, os.Rename(path+".new", path))
		return
	}
	testenv.NeedsTool(t, "qemu-io")
	qemu(t, "qemu-io", "-c", "write -P "+pattern(text)+" 1G 64k", chain(f.Machine(d).Block.Volume))
}

// written checks that the volume contains the text that write wrote. An empty text means that write
// was not called.
func written(t testing.TB, f Folder, d store.Disks, text string) {
	t.Helper()
	if !f.Blocks {
		if got := contents(t, f, d.Volume)["written"]; got != text {
			t.Errorf("%v has %q, want %q", d.Volume, got, text)
		}
		return
	}
	if out := qemu(t, "qemu-io", "-r", "-c", "read -P "+pattern(text)+" 1G 64k", chain(f.Machine(d).Block.Volume)); strings.Contains(out, "failed") {
		t.Errorf("%v has not %q: %s", d.Volume, text, out)
	}
}

// pattern returns the byte that represents a text in images.
func pattern(text string) string {
	if text == "" {
		return "0"
	}
	return "0x" + string("0123456789abcdef"[text[0]%15+1])
}

func qemu(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// chain returns the layers in the form of an argument for QEMU.
func chain(layers []string) string {
	text := `{"driver":"raw","file":{"driver":"file","filename":"` + layers[0] + `"}}`
	for _, l := range layers[1:] {
		text = `{"driver":"qcow2","file":{"driver":"file","filename":"` + l + `"},"backing":` + text + `}`
	}
	return "json:" + text
}

// ctxAfter is a context that is cancelled after a number of calls of its Err method.
type ctxAfter struct {
	context.Context
	left atomic.Int32
}

func newCtxAfter(ctx context.Context, times int) *ctxAfter {
	c := &ctxAfter{Context: ctx}
	c.left.Store(int32(times))
	return c
}

func (c *ctxAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestRemoveOldDuringSetAside removes old disks while another call sets disks aside.
func TestRemoveOldDuringSetAside(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	for range 10 {
		for i := range 20 {
			check(t, os.Mkdir(f.path(name("volume", "")), 0o700))
			check(t, os.WriteFile(f.path(fmt.Sprint("disk-", i)), nil, 0o600))
		}
		check(t, f.SetAside(t.Context()))
		removed := make(chan error, 1)
		go func() { removed <- f.RemoveOld(t.Context()) }()
		check(t, f.SetAside(t.Context()))
		check(t, <-removed)
	}
	check(t, f.RemoveOld(t.Context()))
	if left := names(t, f); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSweepDuringRemoveOld sweeps a folder while another call still removes old disks. This happens
// if a snapshot is deleted while the supervisor removes the disks from before a reset.
func TestSweepDuringRemoveOld(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	for range 10 {
		for range 4 {
			for i := range 20 {
				check(t, os.MkdirAll(filepath.Join(f.path(name("volume", "")), "files", fmt.Sprint(i)), 0o700))
			}
		}
		check(t, f.SetAside(t.Context()))
		removed := make(chan error, 1)
		go func() { removed <- f.RemoveOld(t.Context()) }()
		check(t, f.Sweep(t.Context()))
		check(t, <-removed)
		if left := names(t, f); len(left) != 0 {
			t.Fatalf("left: %v", left)
		}
	}
}

// TestHostileFolder checks that the host follows no link that a machine has put in the place of its
// files.
func TestHostileFolder(t *testing.T) {
	f := Folder{Path: filepath.Join(t.TempDir(), "one")}
	d, err := f.Create(t.Context(), nil)
	check(t, err)
	volume := f.path(d.Volume[0])
	files, err := f.OpenComplete(d)
	if err != nil || files == nil {
		t.Fatalf("%v, %v", files, err)
	}
	files.Close()
	check(t, errors.Join(os.Remove(filepath.Join(volume, filesFolder)), os.Symlink("/", filepath.Join(volume, filesFolder))))
	if files, err := f.OpenComplete(d); err == nil {
		t.Errorf("opened %v", files)
	}
	if files, err := f.OpenFiles(d.Volume); err == nil {
		t.Errorf("opened %v", files)
	}
	check(t, os.Symlink("/nonexistent", filepath.Join(volume, machine.TreeIncomplete)))
	if files, err := f.OpenComplete(d); err != nil || files != nil {
		t.Errorf("an incomplete folder: %v, %v", files, err)
	}
}

// TestIncompleteFolder checks that a copy of a volume lacks the same files as the original.
func TestIncompleteFolder(t *testing.T) {
	f := Folder{Path: filepath.Join(t.TempDir(), "one")}
	d, err := f.Create(t.Context(), nil)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(f.path(d.Volume[0]), machine.TreeIncomplete), nil, 0o600))
	s, err := f.Prepare(t.Context(), d, false)
	check(t, err)
	check(t, f.Take(t.Context(), s))
	if files, err := f.OpenComplete(s.Disks); err != nil || files != nil {
		t.Errorf("%v, %v", files, err)
	}
	files, err := f.OpenFolder(s.Disks.Volume)
	check(t, err)
	files.Close()
}

// TestImmutableTreesShareFiles checks that baselines and snapshots share files with each other. A
// folder that a machine writes to must not share files with other folders.
func TestImmutableTreesShareFiles(t *testing.T) {
	ctx := t.Context()
	f := Folder{Path: filepath.Join(t.TempDir(), "one")}
	d, err := f.Create(ctx, seedOf(map[string]string{"a": "alpha", "d/": "", "d/b": "beta", "d/c": "gamma"}))
	check(t, err)
	in := func(f Folder, volume []string, name string) string {
		return filepath.Join(f.path(volume[0]), filesFolder, name)
	}
	inode := func(f Folder, volume []string, name string) uint64 {
		t.Helper()
		info, err := os.Lstat(in(f, volume, name))
		check(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	// write writes to an existing file, as a machine does.
	write := func(f Folder, volume []string, name, text string) {
		t.Helper()
		file, err := os.OpenFile(in(f, volume, name), os.O_WRONLY|os.O_TRUNC, 0)
		check(t, err)
		_, err = file.WriteString(text)
		check(t, errors.Join(err, file.Close()))
	}
	has := func(f Folder, volume []string, name, want string) {
		t.Helper()
		if b, err := os.ReadFile(in(f, volume, name)); err != nil || string(b) != want {
			t.Errorf("%s/%s has %q, %v, want %q", volume, name, b, err, want)
		}
	}
	take := func(d store.Disks) store.Disks {
		t.Helper()
		s, err := f.Prepare(ctx, d, false)
		check(t, err)
		check(t, f.Take(ctx, s))
		return s.Disks
	}
	write(f, d.Volume, "a", "first")
	one := take(d)
	write(f, d.Volume, "a", "second")
	write(f, d.Volume, "d/b", "second")
	two := take(d)
	reset, err := f.Reset(ctx, one, d, false)
	check(t, err)
	g := f.beside("two")
	fork, err := g.Fork(ctx, f, two, false, false)
	check(t, err)
	current, err := f.beside("three").Fork(ctx, f, d, false, false) // a fork of the current disks of a stopped workspace
	check(t, err)
	for _, name := range []string{"a", "d/b", "d/c"} {
		for what, shares := range map[string]struct {
			shared, want bool
		}{
			"the first snapshot":              {inode(f, one.Volume, name) == inode(f, d.Baseline, name), name != "a"},
			"the second snapshot":             {inode(f, two.Volume, name) == inode(f, d.Baseline, name), name == "d/c"},
			"the baseline of the fork":        {inode(g, fork.Baseline, name) == inode(f, two.Volume, name), true},
			"the volume":                      {inode(f, d.Volume, name) == inode(f, d.Baseline, name), false},
			"the volume and the snapshot":     {inode(f, d.Volume, name) == inode(f, two.Volume, name), false},
			"the reset volume":                {inode(f, reset.Volume, name) == inode(f, one.Volume, name), false},
			"the volume of the fork":          {inode(g, fork.Volume, name) == inode(g, fork.Baseline, name), false},
			"the baseline of the second fork": {inode(f.beside("three"), current.Baseline, name) == inode(f, d.Volume, name), false},
		} {
			if shares.shared != shares.want {
				t.Errorf("%s shares %s: %t", what, name, shares.shared)
			}
		}
		for _, machine := range []struct {
			Folder
			volume []string
		}{{f, d.Volume}, {f, reset.Volume}, {g, fork.Volume}, {f.beside("three"), current.Volume}} {
			write(machine.Folder, machine.volume, name, "machine")
			check(t, os.Chmod(in(machine.Folder, machine.volume, name), 0o600))
		}
	}
	check(t, os.RemoveAll(in(f, d.Volume, "d")))
	for name, want := range map[string][3]string{"a": {"alpha", "first", "second"}, "d/b": {"beta", "beta", "second"}, "d/c": {"gamma", "gamma", "gamma"}} {
		has(f, d.Baseline, name, want[0])
		has(f, one.Volume, name, want[1])
		has(f, two.Volume, name, want[2])
		has(g, fork.Baseline, name, want[2])
		has(f.beside("three"), current.Baseline, name, want[2])
	}
	check(t, f.Sweep(ctx))
	has(g, fork.Baseline, "d/c", "gamma")
}
