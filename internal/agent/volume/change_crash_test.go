package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// stopped is the panic value of a simulated crash. After the crash, no code of the change runs.
type stopped struct{}

var errInjected = errors.New("injected")

// faults injects errors and crashes into the steps of a change or a recovery.
type faults struct {
	steps   int
	fail    map[int]bool // steps that fail
	stop    int          // the step that crashes; -1 if none does
	noLinks bool         // simulates a file system without hard links
	noUndo  bool         // no change can become undoing
	names   []string
}

func (f *faults) hook(step string) error {
	n := f.steps
	f.steps++
	f.names = append(f.names, step)
	switch {
	case n == f.stop:
		panic(stopped{})
	case f.fail[n], f.noUndo && step == "become undoing":
		return errInjected
	case f.noLinks && step == "put aside":
		return unix.EPERM
	}
	return nil
}

func nowhere() *faults { return &faults{stop: -1} }

// trial is a volume and a change. Tests apply the change to copies of the volume.
type trial struct {
	pristine string // path of the volume before the change
	archive  []byte
	old, new string // descriptions of the tree before and after the change
	kind     FSKind
}

// emptyTrial returns a trial with an empty volume, and the path of the files of this volume.
func emptyTrial(t testing.TB, kind FSKind) (x *trial, files string) {
	t.Helper()
	x = &trial{pristine: filepath.Join(volumetest.InMemory(t), "volume"), kind: kind}
	files = filepath.Join(x.pristine, FilesFolder)
	if err := errors.Join(os.Mkdir(x.pristine, 0o755), os.Mkdir(files, 0o755), os.Mkdir(filepath.Join(x.pristine, PendingFolder), 0o700)); err != nil {
		t.Fatal(err)
	}
	return x, files
}

func newTrial(t testing.TB, seed int64, kind FSKind) *trial {
	t.Helper()
	random := rand.New(rand.NewSource(seed))
	x, files := emptyTrial(t, kind)
	var edits []volumetest.Edit
	for x.old == x.new {
		if seed < 2 {
			everyTree(t, files)
			edits = everyEdit
		} else {
			if seed%4 < 3 { // otherwise all folders are new
				someTree(t, files, random)
			}
			edits = randomChange(t, files, random, true)
		}
		x.old = volumetest.Tree(t, files)
		x.archive = volumetest.Archive(t, edits...)
		v := x.volume(t)
		if err := v.attempt(t, x, nowhere()); err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, edits, err)
		}
		x.new = v.tree(t)
	}
	return x
}

// everyEdit contains operations that need every kind of step in the tree of everyTree. Some paths
// have several operations.
var everyEdit = []volumetest.Edit{
	{Path: "new/folder/file", Text: "new"}, {Path: "file", Text: "new", Keep: true}, {Op: "mode", Path: "mode", Mode: 0o4755},
	{Op: "folder", Path: "folder-mode", Mode: 0o1777}, {Op: "folder", Path: "closed", Mode: 0o500}, {Path: "closed/file", Text: "x"},
	{Op: "delete", Path: "dir/file"}, {Op: "delete", Path: "dir"}, {Path: "dir", Text: "a file now"}, {Op: "link", Path: "hard", Text: "mode"},
	{Op: "mode", Path: "hard", Mode: 0o640}, {Op: "delete", Path: "empty"}, {Op: "delete", Path: "was-empty"}, {Op: "folder", Path: "was-empty", Mode: 0o755},
	{Op: "symlink", Path: "link", Text: "mode"}, {Op: "delete", Path: "becomes"}, {Path: "becomes/a/file", Text: "y"}, {Op: "link", Path: "link", Text: "file"},
	{Op: "link", Path: "same", Text: "same"}, {Op: "delete", Path: "same"}, {Path: "new/folder/late", Text: "z"},
}

func everyTree(t testing.TB, files string) {
	t.Helper()
	for _, e := range []volumetest.Edit{
		{Path: "file", Text: "old", Mode: 0o600}, {Path: "dir/file", Text: "old"}, {Op: "folder", Path: "empty", Mode: 0o711}, {Op: "symlink", Path: "link", Text: "file"},
		{Path: "mode", Text: "x"}, {Op: "folder", Path: "folder-mode"}, {Op: "folder", Path: "was-empty", Mode: 0o700}, {Path: "becomes", Text: "folder"},
		{Path: "same", Text: "x"},
	} {
		if err := model(files, e); err != nil {
			t.Fatal(err)
		}
	}
}

// copied is a copy of the volume of a trial.
type copied struct {
	dir  string
	kind FSKind
}

func (x *trial) volume(t testing.TB) *copied {
	t.Helper()
	c := &copied{dir: filepath.Join(volumetest.InMemory(t), "volume"), kind: x.kind}
	copyTree(t, x.pristine, c.dir)
	return c
}

func (c *copied) tree(t testing.TB) string {
	return volumetest.Tree(t, filepath.Join(c.dir, FilesFolder))
}

// with opens the volume with injected faults and calls the function do. ended reports whether there
// was a simulated crash.
func (c *copied) with(t testing.TB, f *faults, do func(*Volume) error) (ended bool, err error) {
	t.Helper()
	root, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	v := newVolume(root, c.kind)
	v.hook = f.hook
	defer v.closeFiles()
	defer func() {
		if r := recover(); r != nil {
			if r != (stopped{}) {
				panic(r)
			}
			ended, err = true, nil
		}
	}()
	return false, do(v)
}

// open opens the volume, which also recovers interrupted changes.
func (c *copied) open(t testing.TB, f *faults) (r Recovered, ended bool, err error) {
	t.Helper()
	ended, err = c.with(t, f, func(v *Volume) (err error) {
		r, err = v.open()
		return err
	})
	return r, ended, err
}

// attempt applies the change of the trial.
func (c *copied) attempt(t testing.TB, x *trial, f *faults) error {
	t.Helper()
	_, err := c.with(t, f, func(v *Volume) error {
		if _, err := v.open(); err != nil {
			t.Fatal(err)
		}
		_, err := v.Change(context.Background(), bytes.NewReader(x.archive))
		return err
	})
	return err
}

// whole opens the volume. It checks that the tree is either the old one or the new one, and that
// nothing is pending.
func (c *copied) whole(t testing.TB, x *trial, when string) (isNew bool, r Recovered) {
	t.Helper()
	r, ended, err := c.open(t, nowhere())
	if ended || err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	volumetest.NothingPending(t, c.dir)
	got := c.tree(t)
	if got != x.old && got != x.new {
		t.Fatalf("%s: it is neither the old tree nor the new one:\n%s\nand\n%s", when, volumetest.Differ(got, x.old), volumetest.Differ(got, x.new))
	}
	return got == x.new, r
}

// eachTrial runs a test with different file systems and seeds.
func eachTrial(t *testing.T, seeds int, try func(*testing.T, *trial, bool)) {
	if testing.Short() || os.Getuid() != 0 { // ordinary users can't read some trees, because of their modes
		seeds = 2
	}
	for seed := range testenv.Seeds(t, seeds) {
		for _, noLinks := range []bool{false, true} {
			kind := FSKind(seed % 2)
			t.Run(fmt.Sprintf("seed=%d/links=%t", seed, !noLinks), func(t *testing.T) {
				t.Parallel()
				try(t, newTrial(t, int64(seed), kind), noLinks)
			})
		}
	}
}

// TestChangeCrashesAtEachStep crashes before every step. It checks that recovery restores the
// old tree. From some step on, recovery must instead complete the new tree.
func TestChangeCrashesAtEachStep(t *testing.T) {
	eachTrial(t, 12, func(t *testing.T, x *trial, noLinks bool) {
		news := 0
		for k := 0; ; k++ {
			f := &faults{stop: k, noLinks: noLinks}
			c := x.volume(t)
			if err := c.attempt(t, x, f); err != nil {
				t.Fatal(err)
			}
			when := fmt.Sprintf("stopped at step %d, before it was to %s", k, f.names[len(f.names)-1])
			ended := f.steps == k+1
			isNew, r := c.whole(t, x, when)
			switch {
			case isNew:
				news++
			case news > 0 || !ended:
				t.Fatalf("%s: the old tree", when)
			}
			if r.Completed+r.Undone > 1 || r.Completed == 1 && !isNew || r.Undone == 1 && isNew {
				t.Fatalf("%s: %+v, and the tree is new: %t", when, r, isNew)
			}
			if !ended {
				if news < 3 || k < 10 {
					t.Errorf("%d steps, and after %d the new tree: the test covered nothing", k, news)
				}
				return
			}
		}
	})
}

// TestChangeFailsAtEachStep makes every step fail, one in each run. If the change returns an
// error, the tree must be the old one, otherwise the new one. Both must also hold after the next
// open.
func TestChangeFailsAtEachStep(t *testing.T) {
	eachTrial(t, 12, func(t *testing.T, x *trial, noLinks bool) {
		failed := 0
		for k := 0; ; k++ {
			f := &faults{stop: -1, fail: map[int]bool{k: true}, noLinks: noLinks}
			c := x.volume(t)
			err := c.attempt(t, x, f)
			if f.steps <= k {
				break
			}
			when := fmt.Sprintf("step %d fails, to %s", k, f.names[k])
			want := x.new
			if err != nil {
				want = x.old
				failed++
				if !errors.Is(err, errInjected) {
					t.Fatalf("%s: %v", when, err)
				}
			}
			if got, want := inside(c.tree(t)), inside(want); got != want {
				t.Fatalf("%s: %v: %s", when, err, volumetest.Differ(got, want))
			}
			if isNew, _ := c.whole(t, x, when); isNew != (err == nil) {
				t.Fatalf("%s: %v, and opened again it is new: %t", when, err, isNew)
			}
		}
		if failed < 10 {
			t.Errorf("%d steps failed: the test covered nothing", failed)
		}
	})
}

// inside returns a description of a tree that ignores the names of files outside of the tree. A
// change that can't clean up leaves such names until the next open.
func inside(tree string) string {
	lines := strings.Split(tree, "\n")
	for i, line := range lines {
		if name, err := strconv.QuotedPrefix(line); err == nil {
			lines[i] = strings.TrimSuffix(line, " as "+name)
		}
	}
	return strings.Join(lines, "\n")
}

// TestFailedChangeCrashesDuringUndo injects another error or a crash while a failed change is
// undone.
func TestFailedChangeCrashesDuringUndo(t *testing.T) {
	eachTrial(t, 6, func(t *testing.T, x *trial, noLinks bool) {
		random := rand.New(rand.NewSource(1))
		total := nowhere()
		if err := x.volume(t).attempt(t, x, total); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			first := random.Intn(total.steps)
			second := first + 1 + random.Intn(total.steps)
			f := &faults{stop: -1, fail: map[int]bool{first: true}, noLinks: noLinks}
			if random.Intn(2) == 0 {
				f.stop = second
			} else {
				f.fail[second] = true
			}
			c := x.volume(t)
			c.attempt(t, x, f)
			c.whole(t, x, fmt.Sprintf("step %d fails, then %d (stop: %t)", first, second, f.stop >= 0))
		}
	})
}

// TestUndoIsRepeated changes paths several times in one change. It makes each step fail, and
// crashes before each step of the undo. With -short, it crashes only before the undo becomes
// finished. The next open undoes all steps once more, and must find the old tree.
func TestUndoIsRepeated(t *testing.T) {
	for name, edits := range map[string][]volumetest.Edit{
		"replace twice":            {{Path: "file", Text: "1"}, {Path: "file", Text: "2"}},
		"replace, replace by link": {{Path: "file", Text: "1"}, {Op: "link", Path: "new", Text: "file"}, {Op: "link", Path: "file", Text: "new"}},
		"replace, set mode":        {{Path: "file", Text: "1"}, {Op: "mode", Path: "file", Mode: 0o600}},
		"set mode, replace":        {{Op: "mode", Path: "file", Mode: 0o600}, {Path: "file", Text: "1"}},
		"remove, create, remove":   {{Op: "delete", Path: "file"}, {Path: "file", Text: "1"}, {Op: "delete", Path: "file"}},
		"remove, link, set mode":   {{Op: "delete", Path: "file"}, {Op: "symlink", Path: "file", Text: "x"}, {Path: "file", Text: "1"}, {Op: "mode", Path: "file", Mode: 0o600}},
		"create, replace":          {{Path: "new", Text: "1"}, {Path: "new", Text: "2"}},
		"create, remove, create":   {{Path: "new", Text: "1"}, {Op: "delete", Path: "new"}, {Path: "new", Text: "2"}},
		"folder becomes a file":    {{Op: "delete", Path: "empty"}, {Path: "empty", Text: "1"}, {Path: "empty", Text: "2"}},
	} {
		for _, noLinks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/links=%t", name, !noLinks), func(t *testing.T) {
				t.Parallel()
				x, _ := placeTrial(t, LocalFS, edits)
				all := &faults{stop: -1, noLinks: noLinks}
				if err := x.volume(t).attempt(t, x, all); err != nil {
					t.Fatal(err)
				}
				undos := 0
				for fail := slices.Index(all.names, "flush the state decided"); fail < slices.Index(all.names, "become finished"); fail++ {
					f := &faults{stop: -1, fail: map[int]bool{fail: true}, noLinks: noLinks}
					c := x.volume(t)
					err, want := c.attempt(t, x, f), x.old
					if err == nil { // for example, a file that can't be copied is moved
						want = x.new
					}
					if got := c.tree(t); got != want {
						t.Fatalf("step %d of %q fails: %v: %s", fail, f.names, err, volumetest.Differ(got, want))
					}
					if err == nil {
						continue
					}
					first, last := slices.Index(f.names, "become undoing"), slices.Index(f.names, "become finished")
					if testing.Short() {
						first = last
					}
					for stop := first; stop <= last; stop++ {
						c = x.volume(t)
						c.attempt(t, x, &faults{stop: stop, fail: f.fail, noLinks: noLinks})
						if isNew, _ := c.whole(t, x, fmt.Sprintf("step %d fails, and %d crashes, of %q", fail, stop, f.names)); !isNew {
							undos++
						}
					}
				}
				if undos < 5 {
					t.Errorf("%d undos crashed: the test covered nothing", undos)
				}
			})
		}
	}
}

// TestUndoWithoutState makes every step fail, one in each run. The change then can't become
// undoing. If it returns an error, the tree must be the old one, also after the next open.
func TestUndoWithoutState(t *testing.T) {
	eachTrial(t, 6, func(t *testing.T, x *trial, noLinks bool) {
		for k := 0; ; k++ {
			f := &faults{stop: -1, fail: map[int]bool{k: true}, noLinks: noLinks, noUndo: true}
			c := x.volume(t)
			err := c.attempt(t, x, f)
			if f.steps <= k {
				return
			}
			when := fmt.Sprintf("step %d fails, to %s", k, f.names[k])
			undone := err != nil && !slices.Contains(f.names[:k], "become finished")
			if got := c.tree(t); undone && got != x.old {
				t.Fatalf("%s: %v: %s", when, err, volumetest.Differ(got, x.old))
			}
			if isNew, _ := c.whole(t, x, when); isNew && undone {
				t.Fatalf("%s: %v, and opened again it is new", when, err)
			}
		}
	})
}

// TestRecoveryIsInterrupted interrupts the recovery of a change several times.
func TestRecoveryIsInterrupted(t *testing.T) {
	eachTrial(t, 6, func(t *testing.T, x *trial, noLinks bool) {
		random := rand.New(rand.NewSource(2))
		total := nowhere()
		if err := x.volume(t).attempt(t, x, total); err != nil {
			t.Fatal(err)
		}
		stops := 0
		for range 60 {
			first := random.Intn(total.steps)
			c := x.volume(t)
			f := &faults{stop: first, noLinks: noLinks}
			if random.Intn(3) == 0 && first > 0 { // so that the crash happens while the change is undone
				f.fail = map[int]bool{random.Intn(first): true}
			}
			c.attempt(t, x, f)
			when := fmt.Sprintf("stopped at %d", first)
			for range 1 + random.Intn(3) {
				f := &faults{stop: random.Intn(12), noLinks: noLinks}
				if random.Intn(4) == 0 {
					f.stop, f.fail = -1, map[int]bool{f.stop: true}
				}
				_, ended, err := c.open(t, f)
				if ended || err != nil {
					stops++
				}
				when += fmt.Sprintf(", and again at %d %v", f.stop, f.fail)
			}
			c.whole(t, x, when)
		}
		if stops < 10 {
			t.Errorf("recovery was stopped %d times: the test covered nothing", stops)
		}
	})
}
