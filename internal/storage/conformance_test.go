package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/environment/ext4image"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

var few = map[string]string{"a": "alpha", "d/": "", "d/b": strings.Repeat("b", 200_000), "d/ünï": "", "l": ">d/b", "out": ">/etc/passwd"}

func TestNewVolumeHasSeed(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		for name, files := range map[string]map[string]string{"none": nil, "an empty one": {}, "a few files": few} {
			seed := seedOf(files)
			if files == nil {
				seed = nil
			}
			d, err := f.Create(t.Context(), seed)
			check(t, err)
			wantFiles(t, f, d, files)
			wantFiles(t, f, store.Disks{Volume: d.Baseline}, files)
			if missing := f.Missing(d); missing != "" || top(d.Volume) == top(d.Baseline) || len(d.Baseline) != 1 {
				t.Errorf("%s: %+v, missing: %q", name, d, missing)
			}
		}
	})
}

func TestFilesKeepTheirModes(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		files, err := f.OpenFiles(d.Volume)
		check(t, err)
		defer files.Close()
		for path, want := range map[string]fs.FileMode{"a": 0o640, "d": fs.ModeDir | 0o750, "l": fs.ModeSymlink | 0o777} {
			if info, err := files.Lstat(path); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v", path, info, err)
			}
		}
		if _, err := files.Open("../" + top(d.Volume)); err == nil {
			t.Error("the files lead out of the volume")
		}
	})
}

func TestFailedSeedLeavesNothing(t *testing.T) {
	own := errors.New("the seed's own")
	both(t, func(t *testing.T, f Folder) {
		for name, seed := range map[string]Seed{
			"at once":       func(context.Context, io.Writer) error { return own },
			"in the middle": func(ctx context.Context, to io.Writer) error { io.CopyN(to, archive(t), 1000); return own },
			"at its end":    func(ctx context.Context, to io.Writer) error { io.Copy(to, archive(t)); return own },
		} {
			if _, err := f.Create(t.Context(), seed); !errors.Is(err, own) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, seed := range map[string]Seed{
			"no archive": func(_ context.Context, to io.Writer) error {
				_, err := io.WriteString(to, strings.Repeat("nonsense", 1000))
				return err
			},
			"a half":    func(_ context.Context, to io.Writer) error { _, err := io.CopyN(to, archive(t), 3000); return err },
			"a way out": seedOf(map[string]string{"../x": "x"}),
			"without end": func(_ context.Context, to io.Writer) error {
				for {
					if _, err := to.Write(bytes.Repeat([]byte{'x'}, 4096)); err != nil {
						return err // the error from the volume
					}
				}
			},
		} {
			if d, err := f.Create(t.Context(), seed); err == nil {
				t.Errorf("%s was accepted: %+v", name, d)
			}
		}
		check(t, f.Sweep(t.Context()))
		if left := names(t, f); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// archive returns a tar stream with a few files.
func archive(t *testing.T) io.Reader {
	var b bytes.Buffer
	check(t, seedOf(few)(t.Context(), &b))
	return &b
}

func TestSnapshotNeverChanges(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		write(t, f, d, "first")
		s := snapshot(t, f, d, false)
		write(t, f, s.Next, "second")
		written(t, f, s.Disks, "first")
		written(t, f, s.Next, "second")
		back, err := f.Reset(t.Context(), s.Disks, s.Next, false)
		check(t, err)
		written(t, f, back, "first")
		write(t, f, back, "third")
		written(t, f, s.Disks, "first")
		base, err := f.Reset(t.Context(), store.Disks{Volume: back.Baseline}, back, false)
		check(t, err)
		written(t, f, base, "")
		wantFiles(t, f, base, few)
		if !slices.Equal(base.Baseline, d.Baseline) || len(base.Root) > 1 {
			t.Errorf("%+v", base)
		}
	})
}

func snapshot(t *testing.T, f Folder, d store.Disks, whole bool) Snapshot {
	t.Helper()
	before, err := json.Marshal(d)
	check(t, err)
	s, err := f.Prepare(t.Context(), d, whole)
	check(t, err)
	check(t, f.Take(t.Context(), s))
	if after, _ := json.Marshal(d); !bytes.Equal(before, after) {
		t.Errorf("a snapshot changed shared disks: %s", after)
	}
	for _, of := range []store.Disks{s.Disks, s.Next} {
		if missing := f.Missing(of); missing != "" {
			t.Errorf("%s is missing of %+v", missing, of)
		}
	}
	return s
}

// startRoot imitates a machine that starts and stops: the root exists afterwards.
func startRoot(t *testing.T, f Folder, d store.Disks, text string) store.Disks {
	t.Helper()
	if f.Blocks {
		path := f.Machine(d).Block.Root[0]
		layer, err := blocks{f}.layer("made")
		check(t, err)
		check(t, os.Rename(f.path(layer), path))
		return d
	}
	path, next := f.NewRoot(d)
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return next
}

func TestFullSnapshotHasRoot(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), nil)
		check(t, err)
		d = startRoot(t, f, d, "installed")
		s := snapshot(t, f, d, true)
		if len(s.Disks.Root) != 1 || !f.Blocks && top(s.Disks.Root) == top(d.Root) || (s.RootLayer != "") != f.Blocks || (s.VolumeLayer != "") != f.Blocks {
			t.Errorf("%+v", s)
		}
		back, err := f.Reset(t.Context(), s.Disks, s.Next, true)
		check(t, err)
		fresh, err := f.Reset(t.Context(), s.Disks, s.Next, false)
		check(t, err)
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, s.Disks, true, false)
		check(t, err)
		if missing := f.Missing(back) + f.Missing(fresh) + other.Missing(fork); missing != "" {
			t.Errorf("%s is missing", missing)
		}
		if f.Blocks {
			for at, layers := range map[string][]string{"reset": f.Machine(back).Block.Root, "fork": other.Machine(fork).Block.Root} {
				if len(layers) != 2 || filepath.Base(layers[0]) != s.Disks.Root[0] {
					t.Errorf("%s: root %v", at, layers)
				}
			}
			if len(fresh.Root) != 1 || fresh.Root[0] == s.Disks.Root[0] {
				t.Errorf("%+v", fresh)
			}
			return
		}
		for _, path := range []string{f.Machine(back).Tree.Root, other.Machine(fork).Tree.Root} {
			if b, err := os.ReadFile(path); err != nil || string(b) != "installed" {
				t.Errorf("%s: %q, %v", path, b, err)
			}
		}
		if f.Machine(fresh).Tree.Root != "" {
			t.Errorf("%+v", fresh)
		}
	})
}

// TestFullSnapshotBeforeFirstStart takes full snapshots of new workspaces and of reset workspaces.
// Their root does not exist before their first machine starts.
func TestFullSnapshotBeforeFirstStart(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), nil)
		check(t, err)
		s := snapshot(t, f, d, true)
		next, err := f.Reset(t.Context(), s.Disks, s.Next, true)
		check(t, err)
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, s.Disks, true, false)
		check(t, err)
		if missing := f.Missing(next) + other.Missing(fork); missing != "" {
			t.Errorf("%s is missing", missing)
		}
	})
}

func TestQEMUReadsLayers(t *testing.T) {
	testenv.NeedsTool(t, "qemu-img")
	top := t.TempDir()
	f := Folder{Path: filepath.Join(top, "one"), Blocks: true, Shared: filepath.Join(top, "shared")}
	d, err := f.Create(t.Context(), seedOf(few))
	check(t, err)
	s := snapshot(t, f, startRoot(t, f, d, ""), true)
	for i, path := range f.Machine(s.Next).Block.Volume {
		format := "qcow2"
		if i == 0 {
			format = "raw"
		} else {
			qemu(t, "qemu-img", "check", "-f", format, path)
		}
		var info struct {
			Size    int64  `json:"virtual-size"`
			Backing string `json:"backing-filename"`
		}
		check(t, json.Unmarshal([]byte(qemu(t, "qemu-img", "info", "-f", format, "--output=json", path)), &info))
		if info.Size != ext4image.VirtualSize || info.Backing != "" {
			t.Errorf("%s: %+v", path, info)
		}
	}
}

// TestForkOwnsSnapshot checks a fork that is allowed to move a snapshot. Its volume and its
// baseline must have the content of the snapshot, and the source must not change.
func TestForkOwnsSnapshot(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		write(t, f, d, "first")
		s := snapshot(t, f, d, true)
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, s.Disks, true, true)
		check(t, err)
		written(t, other, fork, "first")
		write(t, other, fork, "other")
		written(t, f, s.Next, "first")
		check(t, f.Sweep(t.Context(), s.Next))
		check(t, other.Sweep(t.Context(), fork))
		if missing := other.Missing(fork); missing != "" {
			t.Errorf("%s is missing", missing)
		}
		reset, err := other.Reset(t.Context(), store.Disks{Volume: fork.Baseline}, fork, false)
		check(t, err)
		written(t, other, reset, "first")
	})
}

func TestForkOutlivesSource(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		write(t, f, d, "first")
		s := snapshot(t, f, d, false)
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, s.Disks, false, false)
		check(t, err)
		twice := f.beside("fork of the fork")
		again, err := twice.Fork(t.Context(), other, store.Disks{Volume: fork.Baseline}, false, false)
		check(t, err)
		write(t, other, fork, "other")
		written(t, f, s.Disks, "first")
		check(t, os.RemoveAll(f.Path))
		check(t, os.RemoveAll(f.Shared))
		written(t, other, fork, "other")
		check(t, other.Sweep(t.Context(), fork))
		reset, err := other.Reset(t.Context(), store.Disks{Volume: fork.Baseline}, fork, false)
		check(t, err)
		written(t, other, reset, "first") // the baseline of a fork is the snapshot of its source
		check(t, os.RemoveAll(other.Path))
		written(t, twice, again, "first")
		if missing := twice.Missing(again); missing != "" {
			t.Errorf("%s is missing", missing)
		}
	})
}

// TestForkOfCheckpointHasBaseline resumes a machine from the checkpoint of another workspace. The
// machine must never write to the baseline of its own workspace.
func TestForkOfCheckpointHasBaseline(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		write(t, f, d, "first")
		s := snapshot(t, f, d, false)
		_, saved, err := f.NewCheckpoint(s.Disks)
		check(t, err)
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, saved, false, false)
		check(t, err)
		running, err := other.Resume(t.Context(), fork)
		check(t, err)
		write(t, other, running, "other")
		check(t, other.Sweep(t.Context(), running))
		written(t, other, running, "other")
		reset, err := other.Reset(t.Context(), store.Disks{Volume: running.Baseline}, running, false)
		check(t, err)
		written(t, other, reset, "first")
	})
}

func TestFlattenDropsHistory(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		write(t, f, d, "first")
		first := snapshot(t, f, d, false)
		write(t, f, first.Next, "second")
		s := snapshot(t, f, first.Next, false)
		flat, err := f.Flatten(t.Context(), s.Disks)
		check(t, err)
		write(t, f, s.Next, "third")
		check(t, f.Sweep(t.Context(), flat))
		is := func() {
			if f.Blocks { // In block storage the content is not a file on the host.
				wantFiles(t, f, flat, few)
			} else {
				written(t, f, flat, "second")
			}
		}
		is()
		if len(flat.Volume) != 1 || len(flat.Root) > 0 || f.Missing(flat) != "" {
			t.Errorf("%+v, missing %q", flat, f.Missing(flat))
		}
		other := f.beside("fork")
		fork, err := other.Fork(t.Context(), f, store.Disks{Volume: flat.Baseline}, false, false)
		check(t, err)
		write(t, other, fork, "fourth")
		is()
	})
}

func TestUnnamedDisksAreRemoved(t *testing.T) {
	t.Run("at once", func(t *testing.T) { removed(t, Folder.Sweep) })
	t.Run("later", func(t *testing.T) {
		removed(t, func(f Folder, ctx context.Context, keep ...store.Disks) error {
			before := names(t, f)
			if err := f.SetAside(ctx, keep...); err != nil {
				return err
			}
			if after := names(t, f); len(after) != len(before) {
				t.Errorf("%d names were %d before", len(after), len(before))
			}
			return f.RemoveOld(ctx)
		})
	})
}

func removed(t *testing.T, sweep func(f Folder, ctx context.Context, keep ...store.Disks) error) {
	both(t, func(t *testing.T, f Folder) {
		check(t, sweep(f, t.Context())) // The folder is empty.
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		s := snapshot(t, f, d, false)
		second := snapshot(t, f, s.Next, false)
		now, err := f.Reset(t.Context(), s.Disks, second.Next, false)
		check(t, err)
		keep := []store.Disks{now, s.Disks}
		check(t, os.WriteFile(filepath.Join(f.Path, "stray"), nil, 0))
		check(t, os.MkdirAll(filepath.Join(f.Path, "half/made"), 0o700))
		check(t, os.Symlink("/etc", filepath.Join(f.Path, "link")))
		check(t, os.Chmod(filepath.Join(f.Path, "half"), 0))
		check(t, sweep(f, t.Context(), keep...))
		want := map[string]bool{}
		for _, d := range keep {
			for _, n := range slices.Concat(d.Volume, d.Root, d.Baseline) {
				if _, err := os.Lstat(f.path(n)); err == nil {
					want[n] = true
				}
			}
			if missing := f.Missing(d); missing != "" {
				t.Errorf("%s was swept", missing)
			}
		}
		if got := names(t, f); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("left: %v, want %v", got, want)
		}
		wantFiles(t, f, now, few)
		if _, err := os.Lstat("/etc"); err != nil {
			t.Fatal("a link was followed")
		}
		check(t, sweep(f, t.Context()))
		if left := names(t, f); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestMissingDiskIsNamed(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), nil)
		check(t, err)
		d = startRoot(t, f, d, "x")
		s := snapshot(t, f, d, true)
		for _, n := range slices.Concat(s.Disks.Volume, s.Disks.Root, d.Baseline) {
			check(t, os.Rename(f.path(n), f.path(n)+".away"))
			of := store.Disks{Volume: s.Disks.Volume, Root: append(slices.Clone(s.Disks.Root), s.Disks.Root...), Baseline: d.Baseline}
			if got := f.Missing(of); got != n {
				t.Errorf("%s is missing, the error is %q", n, got)
			}
			check(t, os.Rename(f.path(n)+".away", f.path(n)))
		}
		if _, err := f.OpenFiles([]string{"none"}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("files of a missing volume: got %v", err)
		}
		if _, err := f.OpenFiles(nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("files of nothing: %v", err)
		}
		for _, hostile := range []string{"", ".", "..", "../x", "a/b", "/etc", "a\x00b", ".hidden"} {
			if path := f.DiskPath(hostile); filepath.Dir(path) != f.Path || hostile != "" && f.Missing(store.Disks{Volume: []string{hostile}}) == "" {
				t.Errorf("%q is %s", hostile, path)
			}
		}
	})
}

func TestViewShowsRootAndVolume(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		image := filepath.Join(t.TempDir(), "image")
		var root bytes.Buffer
		check(t, seedOf(map[string]string{"etc/": "", "etc/issue": "debian", "workspace/": "", "workspace/hidden": "x"})(t.Context(), &root))
		check(t, ext4image.Build(t.Context(), &root, image, ext4image.Limits{}))
		d, err := f.Create(t.Context(), seedOf(few))
		check(t, err)
		if !f.Blocks {
			var changes bytes.Buffer
			check(t, seedOf(map[string]string{"etc/": "", "etc/changed": "yes"})(t.Context(), &changes))
			d = startRoot(t, f, d, changes.String())
		} else {
			d = startRoot(t, f, d, "")
		}
		v, err := f.OpenView(t.Context(), d, image)
		check(t, err)
		defer v.Close()
		if got := read(t, v.FS, "workspace"); !maps.Equal(got, few) {
			t.Errorf("workspace: %q", got)
		}
		got := read(t, v.FS, "etc")
		if got["issue"] != "debian" || (got["changed"] == "yes") == f.Blocks {
			t.Errorf("etc: %q", got)
		}
		open := descriptors(t)
		if _, err := f.OpenView(t.Context(), store.Disks{Volume: []string{"none"}, Root: d.Root}, image); err == nil {
			t.Error("a view without a volume")
		}
		if now := descriptors(t); now != open {
			t.Errorf("a view that could not be opened leaked %d files", now-open)
		}
	})
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(entries)
}

func TestSizes(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		d, err := f.Create(t.Context(), seedOf(map[string]string{"large": strings.Repeat("0123456789", 300_000)}))
		check(t, err)
		if n := f.Size(store.Disks{Volume: d.Baseline}, store.Disks{}); n < 3_000_000 || n > 30_000_000 {
			t.Errorf("the baseline uses %d bytes", n)
		}
		if n := f.Size(d, store.Disks{Volume: d.Baseline}); f.Blocks && n > 1<<20 {
			t.Errorf("an empty layer uses %d bytes", n)
		}
		if n := f.Size(store.Disks{Volume: []string{"none"}}, store.Disks{}); n != 0 {
			t.Errorf("size of a missing volume: got %d bytes, want 0", n)
		}
	})
}

func TestSweepAfterCancel(t *testing.T) {
	both(t, func(t *testing.T, f Folder) {
		many := map[string]string{}
		for i := range 40 {
			many[strings.Repeat("x", i+1)] = strings.Repeat("y", i*1000)
		}
		d, err := f.Create(t.Context(), seedOf(many))
		check(t, err)
		s := snapshot(t, f, d, false)
		kept := names(t, f)
		other := f.beside("other")
		for name, do := range map[string]func(context.Context) error{
			"create": func(ctx context.Context) error { _, err := other.Create(ctx, seedOf(many)); return err },
			"snapshot": func(ctx context.Context) error {
				return f.Take(ctx, Snapshot{Disks: store.Disks{Volume: []string{name("volume", "")}}, from: d})
			},
			"reset": func(ctx context.Context) error { _, err := f.Reset(ctx, s.Disks, s.Next, false); return err },
			"fork":  func(ctx context.Context) error { _, err := other.Fork(ctx, f, s.Disks, false, false); return err },
		} {
			for _, after := range []int{0, 3, 30} {
				err := do(newCtxAfter(t.Context(), after))
				if err == nil && (!f.Blocks || name == "create" && after == 0) { // In block storage most calls take no time, so they can't be cancelled.
					t.Errorf("%s succeeded although it was cancelled after %d", name, after)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", name, err)
				}
				check(t, f.Sweep(t.Context(), d, s.Disks, s.Next))
				check(t, other.Sweep(t.Context()))
				if left := append(names(t, other), names(t, f)...); !slices.Equal(left, kept) {
					t.Errorf("%s: left %v", name, left)
				}
			}
		}
		wantFiles(t, f, s.Disks, many)
	})
}

// TestChangedFilesAreNotFresh changes files right after the copy. It repeats this many times,
// because the clock of the file system is coarse.
func TestChangedFilesAreNotFresh(t *testing.T) {
	top := t.TempDir()
	f := Folder{Path: filepath.Join(top, "one"), Shared: filepath.Join(top, "shared")}
	d, err := f.Create(t.Context(), seedOf(few))
	check(t, err)
	fresh := 0
	for range 40 {
		d, err = f.Reset(t.Context(), store.Disks{Volume: d.Baseline}, d, false)
		check(t, err)
		path := filepath.Join(f.Machine(d).Tree.Folder, filesFolder, "a")
		untouched := changeTime(t, filepath.Join(filepath.Dir(path), "d/b"))
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(t, err)
		_, err = file.WriteString("A")
		check(t, errors.Join(err, file.Close()))
		check(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))) // A program can reset the mtime, but not the ctime.
		if changed := changeTime(t, path); changed < d.FreshUntil {
			t.Fatalf("a file changed at %d was treated as older than %d", changed, d.FreshUntil)
		}
		if d.FreshUntil == 0 || d.FreshUntil > time.Now().UnixNano() {
			t.Fatalf("fresh until %d", d.FreshUntil)
		}
		if untouched < d.FreshUntil {
			fresh++
		}
		check(t, f.Sweep(t.Context(), d))
	}
	t.Logf("%d of 40 were known to be unchanged", fresh)
	s := snapshot(t, f, d, false)
	if d, err = f.Reset(t.Context(), s.Disks, s.Next, false); err != nil || d.FreshUntil != 0 {
		t.Errorf("a copy of a snapshot, which is not the baseline: %+v, %v", d, err)
	}
	fork, err := f.beside("fork").Fork(t.Context(), f, s.Disks, false, false)
	if err != nil || fork.FreshUntil == 0 {
		t.Errorf("a fork, which is its baseline: %+v, %v", fork, err)
	}
}

func changeTime(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Lstat(path, &st))
	return st.Ctim.Nano()
}

// TestConcurrentFirstVolumes checks that concurrent calls create a complete shared volume, and
// create it only once.
func TestConcurrentFirstVolumes(t *testing.T) {
	top := t.TempDir()
	f := Folder{Path: top, Blocks: true, Shared: filepath.Join(top, "shared")}
	check(t, os.MkdirAll(f.Shared, 0o700))
	check(t, os.WriteFile(filepath.Join(f.Shared, blankImage+".part"), []byte("half"), 0o600)) // leftover of a process that was killed
	done := make(chan error)
	for i := range 6 {
		go func() {
			own := f.beside("unused")
			own.Path = filepath.Join(top, "ws", string(rune('a'+i)))
			d, err := own.Create(context.Background(), nil)
			if err == nil && own.Missing(d) != "" {
				err = errors.New("missing " + own.Missing(d))
			}
			done <- err
		}()
	}
	for range 6 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(f.Shared, blankImage))
	check(t, err)
	if info.Mode().Perm() != 0o400 {
		t.Errorf("%v", info.Mode())
	}
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(f.Shared, blankImage), &st))
	if st.Nlink != 7 {
		t.Errorf("%d names", st.Nlink)
	}
}
