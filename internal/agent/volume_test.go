package agent

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
	"github.com/pyro-mcp/pyro/internal/content"
)

func TestVolumePreparation(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	volumetest.Put(t, dir+"/lost+found/x", "")
	closeVolume(t, storedIn(t, dir).volume)
	for name, want := range map[string]fs.FileMode{volume.FilesFolder: 0o755, "pending": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != fs.ModeDir|want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	// Existing entries stay unchanged, and Open does not follow a link that is there instead of a
	// directory.
	os.Chmod(dir+"/"+volume.FilesFolder, 0o777)
	closeVolume(t, storedIn(t, dir).volume)
	if info, err := os.Stat(dir + "/" + volume.FilesFolder); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{volume.FilesFolder, "pending"} {
		dir := t.TempDir()
		os.Symlink(t.TempDir(), filepath.Join(dir, name))
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := volume.Open(root, volume.LocalFS); err == nil {
			t.Errorf("a link was treated as %s", name)
		}
	}
}

// TestPathsStayInVolume tries many kinds of paths that could lead out of the workspace.
func TestPathsStayInVolume(t *testing.T) {
	s := newStored(t)
	outside := t.TempDir()
	volumetest.Put(t, outside+"/secret", "secret")
	volumetest.Put(t, s.dir+"/beside", "secret")
	volumetest.Put(t, s.files+"/file", "inside")
	volumetest.Put(t, s.files+"/sub/file", "below")
	for name, target := range map[string]string{
		"absolute": outside + "/secret", "absolute-inside": "/workspace/file", "up": "../beside", "up-far": "../../../../../../../.." + outside + "/secret",
		"pending": "../" + "pending", "folder": outside, "folder-up": "..", "self": "/proc/self/root" + outside + "/secret",
		"good": "sub/file", "good-folder": "sub", "sub/good-up": "../file", "loop": "loop", "dangling": "none",
	} {
		if err := os.Symlink(target, filepath.Join(s.files, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		status  int
		content string
	}{
		"file": {200, "inside"}, "sub/file": {200, "below"}, "good": {200, "below"}, "good-folder/file": {200, "below"}, "sub/good-up": {200, "inside"},
		"good-folder/good-up": {200, "inside"},
		"absolute":            {403, ""}, "absolute-inside": {403, ""}, "up": {403, ""}, "up-far": {403, ""}, "self": {403, ""}, "folder/secret": {403, ""},
		"folder-up/beside": {403, ""}, "pending/x": {403, ""}, "pending": {403, ""},
		"loop": {409, ""}, "dangling": {404, ""}, "none": {404, ""}, "file/x": {404, ""}, "sub": {409, ""}, "": {409, ""},
	} {
		status, got := s.read(t, path)
		if status != want.status || want.status == 200 && got != want.content || strings.Contains(got, "secret\n") {
			t.Errorf("read %q: %d %q", path, status, got)
		}
		if want.status == 403 && !strings.Contains(got, "leads out of the workspace") {
			t.Errorf("read %q: %q", path, got)
		}
		for _, call := range []string{"/volume/list", "/volume/tree"} {
			r := s.call(t, http.MethodGet, call, url.Values{"path": {path}, "recursive": {"true"}}, nil)
			if is := want.status != 403 && want.status != 404 && path != "loop"; (r.Code == 200) != is || !is && r.Code != want.status {
				t.Errorf("%s of %q: %d %.100q", call, path, r.Code, r.Body.String())
			}
		}
	}
	before := volumetest.Tree(t, s.dir)
	for path, want := range map[string]int{
		"absolute": 403, "absolute-inside": 403, "up": 403, "up-far": 403, "self": 403, "pending": 403, "folder": 403, "loop": 409, "good-folder": 409, "sub": 409, "": 400,
		"folder/new": 403, "folder-up/new": 403, "pending/new": 403, "folder-up/pending/new": 403, "dangling/new": 409, "file/new": 409, "file/a/b/new": 409,
	} {
		if status, got := s.write(t, path, 0, true, "x"); status != want {
			t.Errorf("write %q: %d %q", path, status, got)
		}
	}
	if after := volumetest.Tree(t, s.dir); after != before {
		t.Errorf("refused writes changed the tree to\n%s", after)
	}
	for path, target := range map[string]string{"good-folder/new": "sub/new", "good": "sub/file", "good-folder/good-up": "file", "dangling": "none"} {
		if status, got := s.write(t, path, 0, true, path); status != 200 {
			t.Errorf("write through the link %s: %d %q", path, status, got)
		}
		if b, _ := os.ReadFile(s.files + "/" + target); string(b) != path {
			t.Errorf("%s has %q", target, b)
		}
	}
	for _, link := range []string{"good", "dangling", "sub/good-up"} {
		if info, err := os.Lstat(filepath.Join(s.files, link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no longer a link: %v", link, err)
		}
	}
	if b, _ := os.ReadFile(outside + "/secret"); string(b) != "secret" {
		t.Errorf("outside is %q", b)
	}
}

func TestUnusableVolumePaths(t *testing.T) {
	s := newStored(t)
	volumetest.Put(t, s.files+"/file", "x")
	for _, path := range []string{"/file", "./file", "../files/file", "a/../file", "a//b", "a/", ".", "..", "a/.", "fi\x00le", strings.Repeat("x/", 2048) + "x"} {
		if status, got := s.read(t, path); status != 400 {
			t.Errorf("read %.20q: %d %q", path, status, got)
		}
		if status, got := s.write(t, path, 0, true, "x"); status != 400 {
			t.Errorf("write %.20q: %d %q", path, status, got)
		}
		for _, call := range []string{"/volume/list", "/volume/tree"} {
			if r := s.call(t, http.MethodGet, call, url.Values{"path": {path}, "recursive": {"0"}}, nil); r.Code != 400 {
				t.Errorf("%s of %.20q: %d %q", call, path, r.Code, r.Body)
			}
		}
	}
	if status, got := s.read(t, strings.Repeat("x", 256)); status != 409 {
		t.Errorf("a name that is too long: %d %q", status, got)
	}
	for path, method := range map[string]string{"/volume/file": http.MethodDelete, "/volume/list": http.MethodPut, "/volume/tree": http.MethodPut, "/volume/change": http.MethodGet} {
		if r := s.call(t, method, path, url.Values{"path": {"file"}, "recursive": {"0"}}, nil); r.Code != 400 {
			t.Errorf("%s %s: %d %q", method, path, r.Code, r.Body)
		}
	}
}

// TestFilesInVolume writes files in a volume. This works in the same way as in the root.
func TestFilesInVolume(t *testing.T) {
	s := newStored(t)
	for _, c := range []struct {
		path string
		mode int
		want fs.FileMode
	}{
		{"new", 0, 0o644}, {"new", 0o600, 0o600}, {"new", 0, 0o600}, {"a/b/c/new", 0o4750, 0o750 | fs.ModeSetuid}, {"späte \xff\n", 0, 0o644},
	} {
		content := fmt.Sprint(c)
		if status, got := s.write(t, c.path, c.mode, true, content); status != 200 {
			t.Errorf("%+v: %d %q", c, status, got)
			continue
		}
		if status, got := s.read(t, c.path); status != 200 || got != content {
			t.Errorf("%+v: %d %q", c, status, got)
		}
		if info, err := os.Lstat(filepath.Join(s.files, c.path)); err != nil || info.Mode() != c.want {
			t.Errorf("%+v: %v, %v", c, info, err)
		}
	}
	if status, got := s.write(t, "no/new", 0, false, "x"); status != 404 {
		t.Errorf("without parents: %d %q", status, got)
	}
	if os.Getuid() == 0 {
		os.Chown(s.files+"/new", 12, 34)
		s.write(t, "new", 0, false, "x")
		if info, err := os.Stat(s.files + "/new"); err != nil || info.Sys().(*syscall.Stat_t).Uid != 12 || info.Sys().(*syscall.Stat_t).Gid != 34 {
			t.Errorf("file of another user: got %v, %v", info, err)
		}
	}
	before := volumetest.Tree(t, s.files)
	for name, body := range map[string]io.Reader{"short": strings.NewReader("x"), "long": strings.NewReader("xyzxyz"), "cut": failingReader{io.ErrClosedPipe}} {
		r := s.call(t, http.MethodPut, "/volume/file", url.Values{"path": {"new"}, "mode": {"0"}, "size": {"3"}}, body)
		if r.Code != 400 && name != "cut" || r.Code == 200 {
			t.Errorf("%s: %d %q", name, r.Code, r.Body)
		}
	}
	if after := volumetest.Tree(t, s.files); after != before {
		t.Errorf("a failed change changed the files to\n%s", after)
	}
	volumetest.NothingPending(t, s.dir)
}

// TestSpecialFilesInVolume checks that calls on special files fail without blocking.
func TestSpecialFilesInVolume(t *testing.T) {
	s := newStored(t)
	if err := unix.Mkfifo(s.files+"/pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	if status, got := s.read(t, "pipe"); status != 409 {
		t.Errorf("read: %d %q", status, got)
	}
	if status, got := s.write(t, "pipe", 0, false, "x"); status != 409 {
		t.Errorf("write: %d %q", status, got)
	}
	r := s.call(t, http.MethodGet, "/volume/tree", url.Values{"path": {"pipe"}}, nil)
	if status, _, text := ended(r); status != 200 || r.Result().Trailer.Get(countsTrailer) != "0 1 0" {
		t.Errorf("tree: %d %s, %v", status, text, r.Result().Trailer)
	}
}

func TestUnmountedVolume(t *testing.T) {
	s := newStored(t)
	s.place.volume = nil
	for path, method := range map[string]string{"/volume/file": http.MethodGet, "/volume/list": http.MethodGet, "/volume/tree": http.MethodGet, "/volume/change": http.MethodPut} {
		if r := s.call(t, method, path, nil, nil); r.Code != http.StatusPreconditionFailed {
			t.Errorf("%s: %d %q", path, r.Code, r.Body)
		}
		rec := httptest.NewRecorder()
		if s.volumePaths()[path](rec, httptest.NewRequest(method, path, nil)); rec.Code != http.StatusPreconditionFailed || !strings.Contains(rec.Header().Get(content.ErrorField), "renewed") {
			t.Errorf("%s, not renewed: %d %q", path, rec.Code, rec.Body)
		}
	}
}
