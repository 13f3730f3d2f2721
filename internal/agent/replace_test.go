package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestReplace(t *testing.T) {
	w := newWorld(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	mode := func(path string) fs.FileMode {
		t.Helper()
		info, err := os.Lstat(w.dir + path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	os.Chmod(w.dir+"/file", 0o751)
	hard := w.dir + "/hard"
	if err := os.Link(w.dir+"/file", hard); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		mode    int
		parents bool
		want    fs.FileMode
	}{
		{"/file", 0, false, 0o751},
		{"/file", 0o600, false, 0o600},
		{"/file", 0o4755, false, 0o755 | fs.ModeSetuid},
		{"/file", 0, false, 0o755 | fs.ModeSetuid},
		{"/new", 0, false, 0o644},
		{"/new2", 0o1777, false, 0o777 | fs.ModeSticky},
		{"/a/b/../c/new", 0o640, true, 0o640},
		{"/deep/x/y/new", 0, true, 0o644},
		{"/sub//new", 0, true, 0o644},
	} {
		content := c.path + strings.Repeat("x", 1<<20)
		if status, got := w.write(t, c.path, c.mode, c.parents, len(content), strings.NewReader(content)); status != 200 {
			t.Errorf("%+v: %d %q", c, status, got)
			continue
		}
		b, err := os.ReadFile(w.dir + c.path)
		if string(b) != content || err != nil || mode(c.path) != c.want {
			t.Errorf("%+v: %d bytes, %v, %v", c, len(b), mode(c.path), err)
		}
	}
	// Descriptors that were opened before still refer to the old file.
	if b, _ := os.ReadFile(hard); string(b) != "inside" {
		t.Errorf("the old file holds %.20q", b)
	}
	if m := mode("/a"); m != fs.ModeDir|0o700 {
		t.Errorf("the created folder has mode %v", m) // 0755 reduced by the umask
	}
	if status, _ := w.write(t, "/no/such/folder/file", 0, false, 0, nil); status != 404 {
		t.Errorf("without parents: %d", status)
	}
	if status, _ := w.write(t, "/dangling/file", 0, true, 0, nil); status != 409 {
		t.Errorf("below a dangling link: %d", status)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(w.dir+"/new", 12, 34); err != nil {
			t.Fatal(err)
		}
		os.Chmod(w.dir+"/new", 0o755|fs.ModeSetuid|fs.ModeSetgid)
		w.write(t, "/new", 0, false, 1, strings.NewReader("x"))
		if got, err := w.stat("/new"); err != nil || got.Uid != 12 || got.Gid != 34 || got.Mode != 0o6755 {
			t.Errorf("file of another user: got %v, %v", got, err)
		}
	}
}

// TestReplaceFails checks that after a failed write, the old file stays and no temporary file
// remains.
func TestReplaceFails(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("the link broke")
	text := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	for name, c := range map[string]struct {
		size    int
		content func() io.Reader
		status  int
	}{
		"too short": {100, text("short"), 400},
		"empty":     {100, text(""), 400},
		"too long":  {3, text("long"), 400},
		"none":      {0, text("x"), 400},
		"cut":       {100, func() io.Reader { return io.MultiReader(strings.NewReader("cut"), failingReader{broken}) }, 500},
	} {
		for _, path := range []string{"/file", "/fresh", "/made/fresh"} {
			if status, got := w.write(t, path, 0, true, c.size, c.content()); status != c.status {
				t.Errorf("%s: %s: %d %q", name, path, status, got)
			}
		}
		if b, err := os.ReadFile(w.dir + "/file"); string(b) != "inside" || err != nil {
			t.Errorf("%s: the old file holds %q, %v", name, b, err)
		}
		for _, path := range []string{"/fresh", "/made/fresh"} {
			if _, err := os.Lstat(w.dir + path); !os.IsNotExist(err) {
				t.Errorf("%s: %s exists: %v", name, path, err)
			}
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// TestReplaceIsAtomic replaces a file repeatedly. It checks that readers of the file see only
// complete versions.
func TestReplaceIsAtomic(t *testing.T) {
	w := newWorld(t)
	whole := func(b byte) string { return strings.Repeat(string(b), 100_000) }
	w.put(t, w.dir+"/file", whole('a'))
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					content := whole(byte('a' + (n+i)%26))
					if status, got := w.write(t, "/file", 0, false, len(content), strings.NewReader(content)); status != 200 {
						t.Errorf("%d %q", status, got)
						return
					}
				}
			}
		})
	}
	for range 500 {
		b, err := os.ReadFile(w.dir + "/file")
		if err != nil || len(b) != 100_000 || len(bytes.Trim(b, string(b[:1]))) != 0 {
			t.Errorf("%d bytes, %v", len(b), err)
			break
		}
	}
	close(stop)
	writers.Wait()
}

// TestReadFails checks that a read error is not treated as the end of the file.
func TestReadFails(t *testing.T) {
	w := &world{Server: New(folder{root: openRoot(t, "/")}, "test")}
	renewed := newSession()
	renewed.renewed.Store(true)
	// Reading /proc/thread-self/mem at offset 0 fails, because the first page of a process is never
	// mapped.
	r := httptest.NewRequestWithContext(context.WithValue(context.Background(), sessionKey{}, renewed), http.MethodGet,
		filePath+"?path=/proc/thread-self/mem&offset=0&limit=0", nil)
	rec := httptest.NewRecorder()
	w.serve(w.file)(rec, r)
	if status, _, text := ended(rec); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
}
