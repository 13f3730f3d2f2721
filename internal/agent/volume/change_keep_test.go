package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
)

// TestReplacedFileIsNeverMissing checks before each modification of the disk that replaced files
// and links are at their paths. It also checks that an undone change restores them completely.
func TestReplacedFileIsNeverMissing(t *testing.T) {
	for _, kind := range []FSKind{LocalFS, PassthroughFS} {
		for _, noLinks := range []bool{false, true} {
			for _, undone := range []bool{false, true} {
				t.Run(fmt.Sprintf("kind=%d/links=%t/undone=%t", kind, !noLinks, undone), func(t *testing.T) {
					replaceAndWatch(t, kind, noLinks, undone)
				})
			}
		}
	}
}

func replaceAndWatch(t *testing.T, kind FSKind, noLinks, undone bool) {
	dir := volumetest.InMemory(t)
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := Open(root, kind)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close(context.Background())
	files := filepath.Join(dir, FilesFolder)
	volumetest.Put(t, files+"/file", "old")
	at := unix.NsecToTimespec(1_700_000_000_123_456_789)
	if err := errors.Join(os.Symlink("file", files+"/link"), os.Chmod(files+"/file", 0o640),
		unix.UtimesNanoAt(unix.AT_FDCWD, files+"/file", []unix.Timespec{at, at}, 0)); err != nil {
		t.Fatal(err)
	}
	var before string
	replaced := 0
	v.hook = func(step string) error {
		for _, name := range []string{"file", "link"} {
			if _, err := os.Lstat(filepath.Join(files, name)); err != nil {
				t.Errorf("before the step %q: %v", step, err)
			}
		}
		if step == "rename" {
			replaced++
		}
		if step == "become decided" {
			if undone { // the last operation of the change can't be applied then
				volumetest.Put(t, files+"/last", "theirs")
			}
			before = volumetest.Tree(t, files)
		}
		if step == "put aside" && noLinks {
			return unix.EPERM
		}
		return nil
	}
	_, err = v.Change(context.Background(), bytes.NewReader(volumetest.Archive(t, volumetest.Edit{Path: "file", Text: "new"},
		volumetest.Edit{Op: "symlink", Path: "link", Text: "elsewhere"}, volumetest.Edit{Path: "last", Text: "x"})))
	if undone != errors.As(err, new(Conflict)) || !undone && err != nil || replaced < 2 {
		t.Errorf("%d files were replaced, %v", replaced, err)
	}
	if got := volumetest.Tree(t, files); undone != (got == before) {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
	volumetest.NothingPending(t, dir)
}
