package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
)

// TestConcurrentWritesAreKept modifies the tree after a change has been checked. It checks
// that the change fails and does not destroy the modification.
func TestConcurrentWritesAreKept(t *testing.T) {
	write := func(path, text string) func(string) error {
		return func(files string) error { return os.WriteFile(filepath.Join(files, path), []byte(text), 0o644) }
	}
	for name, c := range map[string]struct {
		edit      volumetest.Edit
		meanwhile func(files string) error
		path      string // path in the error; empty if the change succeeds
		want      string // expected result, as path=text
	}{
		"write to a replaced file": {volumetest.Edit{Path: "file", Text: "new"}, write("file", "theirs"), "file", "file=theirs"},
		"replace a replaced file": {volumetest.Edit{Path: "file", Text: "new"}, func(files string) error {
			return errors.Join(write("other", "old!")(files), os.Rename(files+"/other", files+"/file"))
		}, "file", "file=old!"},
		"write to a deleted file":                         {volumetest.Edit{Op: "delete", Path: "file"}, write("file", "theirs"), "file", "file=theirs"},
		"delete a deleted file":                           {volumetest.Edit{Op: "delete", Path: "file"}, func(files string) error { return os.Remove(files + "/file") }, "file", "dir/file=below"},
		"create a created file":                           {volumetest.Edit{Path: "new", Text: "new"}, write("new", "theirs"), "new", "new=theirs"},
		"create a folder with the name of a created file": {volumetest.Edit{Path: "new", Text: "new"}, func(files string) error { return os.MkdirAll(files+"/new/x", 0o755) }, "new", "file=old"},
		"create a created folder":                         {volumetest.Edit{Path: "made/new", Text: "new"}, func(files string) error { return os.Mkdir(files+"/made", 0o755) }, "made", "file=old"},
		"add a file to a deleted folder":                  {volumetest.Edit{Op: "delete", Path: "empty"}, write("empty/theirs", "theirs"), "empty", "empty/theirs=theirs"},
		"replace a file with a folder": {volumetest.Edit{Path: "file", Text: "new"}, func(files string) error {
			return errors.Join(os.Remove(files+"/file"), os.MkdirAll(files+"/file/x", 0o755))
		}, "file", "dir/file=below"},
		"replace a file with a link before its mode is set": {volumetest.Edit{Op: "mode", Path: "file", Mode: 0o777}, func(files string) error {
			return errors.Join(os.Remove(files+"/file"), os.Symlink("dir/file", files+"/file"))
		}, "file", "dir/file=below"},
		"delete the folder of a created file": {volumetest.Edit{Path: "empty/new", Text: "new"}, func(files string) error { return os.Remove(files + "/empty") }, "empty/new", "file=old"},
		"replace the folder of a created file with a link": {volumetest.Edit{Path: "empty/new", Text: "new"}, func(files string) error {
			return errors.Join(os.Remove(files+"/empty"), os.Symlink("dir", files+"/empty"))
		}, "empty/new", "dir/file=below"},
		"write to an unrelated file": {volumetest.Edit{Path: "new", Text: "new"}, write("file", "theirs"), "", "file=theirs"},
	} {
		for _, noLinks := range []bool{false, true} {
			s := storedIn(t, volumetest.InMemory(t))
			volumetest.Put(t, s.files+"/file", "old")
			volumetest.Put(t, s.files+"/dir/file", "below")
			volumetest.Put(t, s.files+"/before", "before")
			os.Mkdir(s.files+"/empty", 0o755)
			time.Sleep(5 * time.Millisecond) // longer than the resolution of file times
			var theirs string
			f := &faults{stop: -1, noLinks: noLinks}
			s.volume.hook = func(step string) error {
				if step == "become decided" {
					if err := c.meanwhile(s.files); err != nil {
						t.Error(err)
					}
					theirs = volumetest.Tree(t, s.files)
				}
				return f.hook(step)
			}
			_, err := s.volume.Change(context.Background(), bytes.NewReader(volumetest.Archive(t, volumetest.Edit{Path: "before", Text: "after"}, c.edit, volumetest.Edit{Path: "behind", Text: "x"})))
			var r *OperationError
			if c.path == "" != (err == nil) || err != nil && (!errors.As(err, &r) || r.Path != c.path || !errors.As(err, new(Conflict))) {
				t.Errorf("%s: %v", name, err)
			}
			if got := volumetest.Tree(t, s.files); err != nil && got != theirs {
				t.Errorf("%s: it is\n%s\nand not\n%s", name, got, theirs)
			}
			path, text, _ := strings.Cut(c.want, "=")
			if b, err := os.ReadFile(filepath.Join(s.files, path)); string(b) != text {
				t.Errorf("%s: %s is %q, %v", name, path, b, err)
			}
			volumetest.NothingPending(t, s.dir)
		}
	}
}

// TestWritesBeforeRecoveryAreKept modifies the tree before the recovery, so that the change
// can't be completed any more. It checks that the recovery undoes the change and keeps the
// modification.
func TestWritesBeforeRecoveryAreKept(t *testing.T) {
	x := newTrial(t, 0, LocalFS)
	for k := 0; ; k++ {
		c := x.volume(t)
		f := &faults{stop: k}
		if err := c.attempt(t, x, f); err != nil {
			t.Fatal(err)
		}
		if f.names[len(f.names)-1] != "flush the state "+stateDecided {
			continue
		}
		files := filepath.Join(c.dir, FilesFolder)
		volumetest.Put(t, files+"/becomes", "theirs") // the change removes this file
		volumetest.Put(t, files+"/closed", "theirs")  // the change makes this path a directory
		// Staged files can be hard links to files of the tree, so ignore which files are links.
		names := regexp.MustCompile(` as ".*"`)
		theirs := names.ReplaceAllString(volumetest.Tree(t, files), "")
		r, _, err := c.open(t, nowhere())
		if err != nil || r != (Recovered{Undone: 1}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := names.ReplaceAllString(volumetest.Tree(t, files), ""); got != theirs {
			t.Errorf("it is\n%s\nand not\n%s", got, theirs)
		}
		volumetest.NothingPending(t, c.dir)
		return
	}
}

// TestEditsBeforeRecoveryAreKept stops a change before each of its steps, and then modifies files.
// It checks that the recovery loses no modification.
func TestEditsBeforeRecoveryAreKept(t *testing.T) {
	x, files := emptyTrial(t, LocalFS)
	for _, name := range []string{"a", "b", "c", "d"} {
		volumetest.Put(t, files+"/"+name, "old "+name)
	}
	x.archive = volumetest.Archive(t, volumetest.Edit{Path: "a", Text: "new"}, volumetest.Edit{Path: "b", Text: "new"}, volumetest.Edit{Op: "mode", Path: "b", Mode: 0o755},
		volumetest.Edit{Op: "delete", Path: "c"}, volumetest.Edit{Path: "d", Text: "new"})
	all := nowhere()
	if err := x.volume(t).attempt(t, x, all); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond) // longer than the resolution of file times
	for k := slices.Index(all.names, "flush the state decided"); k < all.steps; k++ {
		for _, replace := range []bool{false, true} {
			c := x.volume(t)
			c.attempt(t, x, &faults{stop: k})
			at := filepath.Join(c.dir, FilesFolder)
			for _, name := range []string{"b", "c", "d"} {
				if replace {
					os.Remove(filepath.Join(at, name))
				}
				volumetest.Put(t, filepath.Join(at, name), "mine!")
			}
			if _, _, err := c.open(t, nowhere()); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"a": "new", "b": "mine!", "c": "mine!", "d": "mine!"} {
				if b, err := os.ReadFile(filepath.Join(at, name)); string(b) != want {
					t.Errorf("stopped before it was to %s (%d): %s is %q, want %q: %v", all.names[k], k, name, b, want, err)
				}
			}
			volumetest.NothingPending(t, c.dir)
		}
	}
}

// TestDamagedStepsAreRejected damages the steps file of a change. It checks that the volume is
// then neither opened nor modified.
func TestDamagedStepsAreRejected(t *testing.T) {
	x := newTrial(t, 0, LocalFS)
	var c *copied
	for k := 0; ; k++ {
		f := &faults{stop: k}
		c = x.volume(t)
		c.attempt(t, x, f)
		if f.names[len(f.names)-1] == "flush the state "+stateDecided {
			break
		}
	}
	records, _ := filepath.Glob(filepath.Join(c.dir, PendingFolder, "*", stateDecided))
	if len(records) != 1 {
		t.Fatalf("records: %v", records)
	}
	whole, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)/2] ^= 1
	if err := os.WriteFile(records[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	before := volumetest.Tree(t, c.dir)
	if _, _, err := c.open(t, nowhere()); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	if after := volumetest.Tree(t, c.dir); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// TestOldSteps reads a steps file of a pyro that did not describe the old entries.
func TestOldSteps(t *testing.T) {
	record := append([]byte(oldRecordForm), 1, byte(stepReplace), 7, 0, 0, 1, 'a')
	record = binary.BigEndian.AppendUint32(record, crc32.ChecksumIEEE(record))
	steps, err := readSteps(bytes.NewReader(record))
	if err != nil || len(steps) != 1 || steps[0] != (step{kind: stepReplace, slot: 7, path: "a"}) {
		t.Errorf("%+v, %v", steps, err)
	}
}

// TestConcurrentChanges checks that concurrent changes are applied one after another. Readers must
// see only complete files.
func TestConcurrentChanges(t *testing.T) {
	s := storedIn(t, volumetest.InMemory(t))
	volumetest.Put(t, s.files+"/file", strings.Repeat("0", 1000))
	archive := func(n byte) []byte {
		return volumetest.Archive(t, volumetest.Edit{Path: "file", Text: strings.Repeat(string('0'+n), 1000)}, volumetest.Edit{Path: "new-" + string('0'+n), Text: "x"})
	}
	failed := make(chan error, 10)
	for n := range byte(10) {
		body := archive(n)
		go func() {
			var err error
			for range 20 {
				if _, err = s.volume.Change(context.Background(), bytes.NewReader(body)); err != nil && !errors.As(err, new(Conflict)) {
					break
				}
				err = nil
			}
			failed <- err
		}()
	}
	for range 10 {
		for done := false; !done; {
			select {
			case err := <-failed:
				if err != nil {
					t.Error(err)
				}
				done = true
			default:
				b, err := os.ReadFile(s.files + "/file")
				if err != nil || len(b) != 1000 || len(bytes.Trim(b, string(b[:1]))) != 0 {
					t.Fatalf("%d bytes, %v", len(b), err)
				}
			}
		}
	}
	volumetest.NothingPending(t, s.dir)
}

// TestChangeWaitsForUnlock checks that a change waits while changes are locked. It
// also checks that a waiting change can be cancelled.
func TestChangeWaitsForUnlock(t *testing.T) {
	s := storedIn(t, volumetest.InMemory(t))
	release, err := s.volume.LockChanges(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.volume.Change(ctx, bytes.NewReader(volumetest.Archive(t, volumetest.Edit{Path: "x", Text: "x"}))); err != context.DeadlineExceeded {
		t.Errorf("a change was applied: %v", err)
	}
	if _, err := s.volume.LockChanges(ctx); err != context.DeadlineExceeded {
		t.Errorf("it is still twice: %v", err)
	}
	if _, err := os.Lstat(s.files + "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	volumetest.NothingPending(t, s.dir)
	release()
	if _, err := s.volume.Change(context.Background(), bytes.NewReader(volumetest.Archive(t, volumetest.Edit{Path: "x", Text: "x"}))); err != nil {
		t.Error(err)
	}
}

// FuzzChange checks that any archive is applied either completely or not at all. It also checks
// that nothing outside of the workspace changes.
func FuzzChange(f *testing.F) {
	f.Add(volumetest.Archive(f, everyEdit...))
	f.Add(volumetest.Archive(f, volumetest.Edit{Op: "symlink", Path: "out", Text: ".."}, volumetest.Edit{Path: "out/x", Text: "x"}))
	f.Add(volumetest.Archive(f, volumetest.Edit{Path: "a/b", Text: "x", Expect: "absent"}, volumetest.Edit{Op: "delete", Path: "../beside"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		s := storedIn(t, volumetest.InMemory(t))
		volumetest.Put(t, s.dir+"/beside", "beside")
		volumetest.Put(t, s.files+"/dir/file", "x")
		before := volumetest.Tree(t, s.dir)
		_, err := s.volume.Change(context.Background(), bytes.NewReader(archive))
		volumetest.NothingPending(t, s.dir)
		if b, _ := os.ReadFile(s.dir + "/beside"); string(b) != "beside" {
			t.Fatal("the file outside the workspace was removed or changed")
		}
		if entries, _ := os.ReadDir(s.dir); len(entries) != 3 {
			t.Fatalf("entries outside the workspace: got %v, want 3", entries)
		}
		if after := volumetest.Tree(t, s.dir); err != nil && after != before {
			t.Fatalf("%v, and it was\n%s\nand is\n%s", err, before, after)
		}
	})
}

// FuzzSteps parses arbitrary data as a steps file.
func FuzzSteps(f *testing.F) {
	var b bytes.Buffer
	if err := writeSteps(&b, []step{{kind: stepCreate, slot: 5, path: "a/b"}, {kind: stepMode, slot: 1 << 20, path: "c\xff", mode: 0o4755, before: 0o644}, {kind: stepPlaced, slot: 7, path: "a/c", top: 5}, {kind: stepRemove, path: "d", expected: &stat{size: 1 << 40, modTime: unix.NsecToTimespec(-1)}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(recordForm))
	f.Fuzz(func(t *testing.T, record []byte) {
		steps, err := readSteps(bytes.NewReader(record))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		var again bytes.Buffer
		if err := writeSteps(&again, steps); err != nil || len(again.Bytes()) > len(record)+2*len(steps) { // the old form is shorter
			t.Fatalf("%v, and %d bytes become %d", err, len(record), again.Len())
		}
		for _, s := range steps {
			if CheckRelative(s.path) != nil || s.path == "" || s.kind == 0 || s.kind >= stepKinds || s.mode > 0o7777 || s.before > 0o7777 || s.top > maxSteps {
				t.Fatalf("%+v", s)
			}
		}
	})
}
