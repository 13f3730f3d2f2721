package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
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

// TestFoldersInTheWay makes and lists folders below what is no folder, and through links.
func TestFoldersInTheWay(t *testing.T) {
	w := newWorld(t)
	if err := errors.Join(os.Symlink("sub", filepath.Join(w.dir, "to-sub")), os.Symlink("nowhere", filepath.Join(w.dir, "gone"))); err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, w.dir)
	call := func(serve func(int, http.ResponseWriter, *http.Request) error, method string, q url.Values) error {
		return serve(root, httptest.NewRecorder(), httptest.NewRequest(method, "/?"+q.Encode(), nil))
	}
	make := func(name string) error { return call(w.makeFolder, http.MethodPut, url.Values{"path": {name}}) }
	for name, in := range map[string]string{"/file": "/file", "/file/x": "/file", "/file/x/y/": "/file", "/to-sub/file/x": "/to-sub/file", "/gone": "/gone", "/gone/x/y": "/gone"} {
		err := make(name)
		var path *fs.PathError
		if statusOf(err) != http.StatusConflict || !errors.As(err, &path) || path.Path != in {
			t.Errorf("make %s: %v", name, err)
		}
	}
	for _, name := range []string{"/", "/sub", "/to-sub", "/to-sub/a/b", "/sub/a/b"} {
		if err := make(name); err != nil {
			t.Errorf("make %s: %v", name, err)
		}
	}
	real := openRoot(t, "/")
	if err := New(folder{root: real}, "test").makeFolder(real, httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/?path=/proc/new", nil)); statusOf(err) != http.StatusForbidden {
		t.Errorf("make /proc/new: %v", err)
	}
	if err := w.remove(root, "/"+strings.Repeat("x", 256)); statusOf(err) != http.StatusConflict {
		t.Errorf("remove a name that is too long: %v", err)
	}
	l, err := volume.ListIn(root, "/to-sub", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var list bytes.Buffer
	if err := l.Write(&list); err != nil {
		t.Fatal(err)
	}
	if e, err := listing.NewReader(&list).Next(); err != nil || e.Kind != listing.Link || e.Target != "sub" {
		t.Errorf("a link is listed as %+v: %v", e, err)
	}
}
