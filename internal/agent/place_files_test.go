package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveStaysInside removes folders with links that lead out of them, and refuses what is not to be removed.
func TestRemoveStaysInside(t *testing.T) {
	outside, top := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "kept")
	for _, err := range []error{
		os.WriteFile(kept, nil, 0o600), os.MkdirAll(filepath.Join(top, "a/b/c"), 0o700), os.WriteFile(filepath.Join(top, "a/b/f"), nil, 0o600),
		os.Symlink(outside, filepath.Join(top, "a/b/out")), os.Symlink(kept, filepath.Join(top, "a/link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	if err := removeAt(root, "a", "/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(top, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("what a link leads to was removed: %v", err)
	}
	if err := removeAt(root, "a", "/a"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("once more: %v", err)
	}
}
