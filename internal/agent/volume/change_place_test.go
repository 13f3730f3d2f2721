package volume

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// placeEdits has operations that need entries in staged folders, and that take them out again.
var placeEdits = map[string][]volumetest.Edit{
	"a tree":                     {{Op: "folder", Path: "p", Mode: 0o750}, {Path: "p/x", Text: "x"}, {Path: "p/q/y", Text: "y"}, {Op: "symlink", Path: "p/q/l", Text: "y"}, {Op: "folder", Path: "p/q/e", Mode: 0o711}},
	"the folder last":            {{Path: "p/q/y", Text: "y"}, {Op: "folder", Path: "p/q", Mode: 0o700}, {Op: "folder", Path: "p", Mode: 0o500}},
	"a closed folder":            {{Op: "folder", Path: "p", Mode: 0o500}, {Op: "folder", Path: "p/q", Mode: 0}, {Path: "p/q/x", Text: "x"}},
	"twice":                      {{Path: "p/x", Text: "1"}, {Path: "p/x", Text: "2", Keep: true}, {Path: "p/x", Text: "3", Mode: 0o600}},
	"removed":                    {{Path: "p/x", Text: "1"}, {Op: "delete", Path: "p/x"}},
	"removed and made":           {{Path: "p/x", Text: "1"}, {Op: "delete", Path: "p/x"}, {Path: "p/x", Text: "2"}},
	"the folder removed":         {{Path: "p/q/x", Text: "1"}, {Op: "delete", Path: "p/q/x"}, {Op: "delete", Path: "p/q"}, {Path: "p/y", Text: "2"}},
	"the folder made again":      {{Op: "folder", Path: "p"}, {Op: "delete", Path: "p"}, {Path: "p/x", Text: "1"}, {Path: "p/q/y", Text: "2"}},
	"inside, made again":         {{Op: "folder", Path: "p/q"}, {Op: "delete", Path: "p/q"}, {Path: "p/q/r/x", Text: "1"}, {Path: "p/z", Text: "2"}},
	"a file, then a folder":      {{Path: "p/x", Text: "1"}, {Op: "delete", Path: "p/x"}, {Path: "p/x/y", Text: "2"}},
	"a folder, then a file":      {{Op: "folder", Path: "p/x"}, {Op: "delete", Path: "p/x"}, {Path: "p/x", Text: "2"}},
	"a link, then a file":        {{Path: "p/x", Text: "1"}, {Op: "link", Path: "p/y", Text: "p/x"}, {Path: "p/y", Text: "2"}},
	"a link, then a folder":      {{Path: "p/x", Text: "1"}, {Op: "link", Path: "p/y", Text: "p/x"}, {Op: "delete", Path: "p/y"}, {Path: "p/y/z", Text: "2"}},
	"a link, removed":            {{Path: "p/x", Text: "1"}, {Op: "link", Path: "p/y", Text: "p/x"}, {Op: "delete", Path: "p/y"}, {Path: "p/y", Text: "2"}},
	"links":                      {{Path: "p/x", Text: "1"}, {Op: "link", Path: "l", Text: "p/x"}, {Op: "link", Path: "p/q/m", Text: "l"}, {Op: "delete", Path: "p/x"}},
	"a link to a replaced file":  {{Path: "p/x", Text: "1"}, {Op: "link", Path: "l", Text: "p/x"}, {Path: "p/x", Text: "2"}, {Op: "link", Path: "m", Text: "p/x"}},
	"a mode":                     {{Path: "p/x", Text: "1"}, {Op: "mode", Path: "p/x", Mode: 0o4711}, {Op: "mode", Path: "p", Mode: 0o1700}, {Path: "p/y", Text: "2"}},
	"below a file":               {{Path: "p", Text: "1"}, {Path: "p/x", Text: "2"}},
	"below a symbolic link":      {{Op: "symlink", Path: "p", Text: "folder"}, {Path: "p/x", Text: "2"}},
	"below an old link":          {{Path: "link/x/y", Text: "2"}},
	"below an old file":          {{Path: "file/x/y", Text: "2"}},
	"in an old folder":           {{Path: "folder/x", Text: "1"}, {Path: "folder/p/q/x", Text: "2"}, {Path: "folder/p/y", Text: "3"}, {Path: "folder/old", Text: "new"}},
	"an old folder is replaced":  {{Op: "delete", Path: "empty"}, {Path: "empty/p/x", Text: "1"}, {Path: "empty/y", Text: "2"}},
	"an old folder is a file":    {{Op: "delete", Path: "empty"}, {Path: "empty", Text: "1"}, {Op: "delete", Path: "empty"}, {Path: "empty/x", Text: "2"}},
	"a step between":             {{Path: "p/x", Text: "1"}, {Path: "y", Text: "2"}, {Op: "delete", Path: "file"}, {Path: "p/z", Text: "3"}},
	"the folder replaces a file": {{Op: "delete", Path: "file"}, {Path: "file/p/x", Text: "1"}, {Path: "file/p/y", Text: "2"}},
}

func placeTrial(t *testing.T, kind FSKind, edits []volumetest.Edit) (x *trial, rejected bool) {
	t.Helper()
	x, files := emptyTrial(t, kind)
	x.archive = volumetest.Archive(t, edits...)
	for _, e := range []volumetest.Edit{{Path: "folder/old", Text: "old"}, {Op: "folder", Path: "empty"}, {Op: "symlink", Path: "link", Text: "folder"}, {Path: "file", Text: "old"}} {
		if err := model(files, e); err != nil {
			t.Fatal(err)
		}
	}
	x.old = volumetest.Tree(t, files)
	want := filepath.Join(volumetest.InMemory(t), "want")
	copyTree(t, files, want)
	for _, e := range edits {
		if model(want, e) != nil {
			x.new = x.old
			return x, true
		}
	}
	x.new = volumetest.Tree(t, want)
	return x, false
}

// TestPlaces compares changes with the model. It also stops them before each step, and makes each
// step fail.
func TestPlaces(t *testing.T) {
	testenv.NeedsRoot(t, "enter folders of any mode")
	for name, edits := range placeEdits {
		for _, kind := range []FSKind{LocalFS, PassthroughFS} {
			t.Run(fmt.Sprintf("%s/%d", name, kind), func(t *testing.T) {
				t.Parallel()
				x, rejected := placeTrial(t, kind, edits)
				c := x.volume(t)
				all := nowhere()
				if err := c.attempt(t, x, all); (err != nil) != rejected {
					t.Fatalf("%v; the model rejects it: %t", err, rejected)
				}
				if got := c.tree(t); got != x.new {
					t.Fatal(volumetest.Differ(got, x.new))
				}
				volumetest.NothingPending(t, c.dir)
				for k := range all.steps {
					c := x.volume(t)
					c.attempt(t, x, &faults{stop: k})
					c.whole(t, x, fmt.Sprintf("stopped before it was to %s (%d)", all.names[k], k))
					c = x.volume(t)
					err := c.attempt(t, x, &faults{stop: -1, fail: map[int]bool{k: true}})
					if isNew, _ := c.whole(t, x, fmt.Sprintf("failed to %s (%d)", all.names[k], k)); isNew != (err == nil) && !rejected {
						t.Errorf("failed to %s (%d): %v, and it is new: %t", all.names[k], k, err, isNew)
					}
				}
			})
		}
	}
}

// TestNewFolderMovesOnce checks that a new folder gets its path with a single move.
func TestNewFolderMovesOnce(t *testing.T) {
	edits := []volumetest.Edit{{Op: "folder", Path: "p"}}
	for i := range 50 {
		edits = append(edits, volumetest.Edit{Path: fmt.Sprintf("p/q%d/r/x%d", i%3, i), Text: "x"})
	}
	x, _ := placeTrial(t, LocalFS, edits)
	all := nowhere()
	if err := x.volume(t).attempt(t, x, all); err != nil {
		t.Fatal(err)
	}
	moves := len(slices.DeleteFunc(all.names, func(step string) bool { return step != "move" }))
	if moves != 1 {
		t.Errorf("%d moves", moves)
	}
}

// TestOtherFoldersAreKept checks that another program's folder at the path of a new folder keeps
// its files, also if they have the names of the change.
func TestOtherFoldersAreKept(t *testing.T) {
	x, _ := placeTrial(t, LocalFS, []volumetest.Edit{{Path: "p/x", Text: "new"}, {Path: "p/q/y", Text: "new"}})
	all := nowhere()
	if err := x.volume(t).attempt(t, x, all); err != nil {
		t.Fatal(err)
	}
	other := []volumetest.Edit{{Path: "p/x", Text: "other"}, {Path: "p/q/y", Text: "other"}}
	for k := range all.steps {
		if k > 0 && !slices.Contains(all.names[k:], "move") {
			break
		}
		c := x.volume(t)
		c.attempt(t, x, &faults{stop: k})
		files := filepath.Join(c.dir, FilesFolder)
		for _, e := range other {
			if err := model(files, e); err != nil {
				t.Fatal(err)
			}
		}
		want := c.tree(t)
		for stop := range 8 { // the recovery is interrupted too
			c.open(t, &faults{stop: stop})
		}
		if _, ended, err := c.open(t, nowhere()); ended || err != nil {
			t.Fatal(err)
		}
		volumetest.NothingPending(t, c.dir)
		if got := c.tree(t); got != want {
			t.Errorf("stopped before it was to %s (%d): %s", all.names[k], k, volumetest.Differ(got, want))
		}
	}
}

// TestConflictUndoesPlaces checks that a conflict in the middle of a change also undoes the later
// entries of a new folder, which were moved with it.
func TestConflictUndoesPlaces(t *testing.T) {
	x, _ := placeTrial(t, LocalFS, []volumetest.Edit{{Path: "p/x", Text: "1"}, {Path: "new", Text: "1"}, {Path: "p/y", Text: "2"}})
	for _, crash := range []bool{false, true} {
		c := x.volume(t)
		c.with(t, nowhere(), func(v *Volume) error {
			if _, err := v.open(); err != nil {
				t.Fatal(err)
			}
			v.hook = func(step string) error {
				if step != "flush the state decided" {
					return nil
				}
				if err := model(filepath.Join(c.dir, FilesFolder), volumetest.Edit{Path: "new", Text: "other"}); err != nil {
					t.Fatal(err)
				}
				if crash {
					panic(stopped{})
				}
				return nil
			}
			if _, err := v.Change(t.Context(), bytes.NewReader(x.archive)); !errors.As(err, new(Conflict)) {
				t.Errorf("got %v, want a conflict", err)
			}
			return nil
		})
		if _, ended, err := c.open(t, nowhere()); ended || err != nil {
			t.Fatal(err)
		}
		volumetest.NothingPending(t, c.dir)
		want := filepath.Join(volumetest.InMemory(t), "want")
		copyTree(t, filepath.Join(x.pristine, FilesFolder), want)
		model(want, volumetest.Edit{Path: "new", Text: "other"})
		if got, want := c.tree(t), volumetest.Tree(t, want); got != want {
			t.Errorf("crash %t: %s", crash, volumetest.Differ(got, want))
		}
	}
}

// TestUnusedPlaces checks that nothing is left of a staged folder if another program creates the
// folder before the check.
func TestUnusedPlaces(t *testing.T) {
	s := storedIn(t, volumetest.InMemory(t))
	staged := 0
	s.volume.hook = func(step string) error {
		if step == "stage a file" {
			if staged++; staged == 3 {
				return os.MkdirAll(filepath.Join(s.files, "a/b"), 0o755)
			}
		}
		return nil
	}
	_, err := s.change(t, volumetest.Archive(t, []volumetest.Edit{
		{Path: "a/b/c", Text: "1"}, {Op: "delete", Path: "a/b/c"}, {Op: "delete", Path: "a/b"}, {Op: "delete", Path: "a"}, {Path: "a/z", Text: "1"}, {Path: "end", Text: "1"},
	}...))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.files, "a")); len(left) != 1 || left[0].Name() != "z" {
		t.Errorf("a contains %v, want z", left)
	}
}

// TestDecidedChangeIsCompleted stops a change while it is undone, although its steps file still
// says that it must be applied.
func TestDecidedChangeIsCompleted(t *testing.T) {
	x, _ := placeTrial(t, LocalFS, []volumetest.Edit{{Path: "p/x", Text: "1"}, {Path: "p/q/y", Text: "2"}})
	for k, ended := 0, true; ended; k++ {
		c := x.volume(t)
		ended, _ = c.with(t, nowhere(), func(v *Volume) error {
			if _, err := v.open(); err != nil {
				t.Fatal(err)
			}
			undone := -1
			v.hook = func(step string) error {
				switch {
				case undone == k:
					panic(stopped{})
				case undone >= 0:
					undone++
				case step == "become undoing":
					undone = 0
					return errInjected
				case step == "become finished":
					return errInjected
				}
				return nil
			}
			_, err := v.Change(t.Context(), bytes.NewReader(x.archive))
			return err
		})
		c.whole(t, x, fmt.Sprintf("stopped at step %d of the undo", k))
	}
}

// TestPlaceAfterManySlots puts a file again after the folder of its slot was left.
func TestPlaceAfterManySlots(t *testing.T) {
	edits := []volumetest.Edit{{Path: "p/x", Text: "1"}}
	for i := range slotsPerFolder + 10 {
		edits = append(edits, volumetest.Edit{Path: fmt.Sprint("q/", i), Text: "x"})
	}
	x, _ := placeTrial(t, LocalFS, append(edits, volumetest.Edit{Path: "p/x", Text: "2"}))
	c := x.volume(t)
	if err := c.attempt(t, x, nowhere()); err != nil {
		t.Fatal(err)
	}
	if got := c.tree(t); got != x.new {
		t.Error(volumetest.Differ(got, x.new))
	}
}

// TestDeepFolders checks that a change with very deep folders can be discarded, although the
// removal needs a descriptor for each level of a staged folder.
func TestDeepFolders(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 1024
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	s := storedIn(t, volumetest.InMemory(t))
	_, err := s.change(t, volumetest.Archive(t, volumetest.Edit{Path: "d" + strings.Repeat("/a", 2000) + "/f", Text: "1"}, volumetest.Edit{Op: "delete", Path: "missing"}))
	if !errors.As(err, new(Conflict)) {
		t.Errorf("got %v, want a conflict", err)
	}
	volumetest.NothingPending(t, s.dir)
}
