package agent

import (
	"bytes"
	"context"
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
	"github.com/pyro-mcp/pyro/internal/content"
)

// TestRemoveStaysInside removes a folder that contains links to files outside. It checks that the
// targets of the links stay. It also checks that a second removal fails with ENOENT.
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
	if err := volume.RemoveTree(root, "a", "/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(top, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftover: %v", err)
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("the target of a link was removed: %v", err)
	}
	if err := volume.RemoveTree(root, "a", "/a"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("once more: %v", err)
	}
}

// TestPathsThroughFilesAndLinks creates and lists folders at paths that lead through files and
// links.
func TestPathsThroughFilesAndLinks(t *testing.T) {
	w := newWorld(t)
	if err := errors.Join(os.Symlink("sub", filepath.Join(w.dir, "to-sub")), os.Symlink("nowhere", filepath.Join(w.dir, "gone"))); err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, w.dir)
	call := func(serve func(int, *content.Answer, *http.Request) error, method string, q url.Values) error {
		return serve(root, &content.Answer{ResponseWriter: httptest.NewRecorder()}, httptest.NewRequest(method, "/?"+q.Encode(), nil))
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
	if err := New(folder{root: real}, "test").makeFolder(real, nil, httptest.NewRequest(http.MethodPut, "/?path=/proc/new", nil)); statusOf(err) != http.StatusForbidden {
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

// mounted is an environment with a volume.
type mounted struct{ ExecEnv }

func (mounted) Volume() (*volume.Volume, error) { return nil, nil }

// TestWorkspaceWithoutVolume removes and renames the workspace of a machine that has no volume.
func TestWorkspaceWithoutVolume(t *testing.T) {
	w := newWorld(t)
	root := openRoot(t, w.dir)
	made := filepath.Join(w.dir, Workspace)
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{Workspace, "/aside"}, {"/aside", Workspace}} {
		q := url.Values{"path": {names[0]}, "to": {names[1]}}
		if err := w.rename(root, nil, httptest.NewRequest(http.MethodPut, "/?"+q.Encode(), nil)); err != nil {
			t.Errorf("rename %s: %v", names[0], err)
		}
	}
	if err := w.remove(root, Workspace); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftover: %v", err)
	}
}

// TestRenameCalls checks the statuses of renames, and that they never leave the root.
func TestRenameCalls(t *testing.T) {
	w := newWorld(t)
	w.env = mounted{w.env}
	call := func(method, from, to string) int {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(method, renamePath+"?"+url.Values{"path": {from}, "to": {to}}.Encode(), nil)
		s := newSession()
		s.renewed.Store(true)
		w.serveIn(w.rename)(rec, req.WithContext(context.WithValue(req.Context(), sessionKey{}, s)))
		return rec.Code
	}
	for _, c := range []struct {
		from, to string
		want     int
	}{
		{"/file", "/sub/file", 422}, {"/file", "/file", 422}, {"/sub/file", "/up", 422},
		{"/none", "/new", 404}, {"/file/x", "/new", 404}, {"/folder/secret", "/new", 404}, {"/folder-up/secret", "/new", 404}, {"/top/outside/secret", "/new", 404},
		{"/file", "/none/new", 404}, {"/file", "/folder/new", 404}, {"/file", "/folder-up/new", 404}, {"/file", "/dangling/new", 404},
		{"/sub/deep", "/file/new", 409}, {"/file", "/loop/new", 409}, {"/file", "/" + strings.Repeat("n", 256), 409}, {"/" + strings.Repeat("n", 256), "/new", 409},
		{"/sub", "/sub/deep/new", 400}, {"/sub", "/deep/new", 400},
		{"/", "/new", 400}, {"/sub/..", "/new", 400}, {Workspace, "/new", 400}, {Workspace + "/", "/new", 400}, {"/file", "/", 400}, {"/file", Workspace, 400},
		{"file", "/new", 400}, {"/file", "new", 400}, {"", "/new", 400}, {"/file", "", 400}, {"/file", "/a\x00b", 400}, {"/file", strings.Repeat("/n", 2049), 400},
		{"/file", "/sub/deep/new", 200}, {"/sub/deep", "/root/moved", 200}, {"/up", "/top/new", 200},
	} {
		if got := call(http.MethodPut, c.from, c.to); got != c.want {
			t.Errorf("%.40q to %.40q: got %d, want %d", c.from, c.to, got, c.want)
		}
	}
	if got := call(http.MethodPost, "/moved", "/again"); got != 400 {
		t.Errorf("POST: got %d", got)
	}
	if b, err := os.ReadFile(w.dir + "/moved/new"); string(b) != "inside" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if target, err := os.Readlink(w.dir + "/new"); target != "../outside/secret" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
}
