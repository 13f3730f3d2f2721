package volume

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
)

func TestReaderChangesNothing(t *testing.T) {
	top := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(top, "a"), 0o700), os.WriteFile(filepath.Join(top, "a/file"), []byte("text"), 0o600), os.Symlink("a", filepath.Join(top, "link"))); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	r := NewReader(folder)
	if f, err := r.OpenExact("link/file"); !errors.Is(err, unix.ELOOP) || !Vanished(err) {
		t.Errorf("%v, %v", f, err)
	}
	f, err := r.OpenExact("a/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	l, err := r.List("", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var seen []string
	enough := errors.New("enough")
	err = l.Each(func(e listing.Entry) error {
		if seen = append(seen, e.Path+" "+e.Target); e.Path == "link" {
			return enough
		}
		return nil
	})
	if want := []string{" ", "a ", "a/file ", "link a"}; err != enough || strings.Join(seen, ",") != strings.Join(want, ",") {
		t.Errorf("%q, %v", seen, err)
	}
	if all, err := os.ReadDir(top); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestDeepTreesAreRefused checks that a tree can't grow the memory of its reader without a limit.
func TestDeepTreesAreRefused(t *testing.T) {
	top, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	at := int(top.Fd())
	name := strings.Repeat("d", 250)
	for range maxTreePath/len(name) + 2 {
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		if at, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(at)
	}
	if _, err := WriteTree(io.Discard, top, ""); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Error(err)
	}
}
