package sdktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pyro-mcp/pyro"
)

func files(t *testing.T, ws *pyro.Workspace) {
	fsys := ws.FS()
	large := bytes.Repeat([]byte("0123456789\xff\x00bcdef"), 200_000)
	check(t, fsys.WriteFile("hello.txt", []byte("hello\n"), 0))
	check(t, fsys.WriteFile("deep/er/run.sh", []byte("#!/bin/sh\n"), 0o755))
	check(t, fsys.WriteFile("large", large, 0o600))
	check(t, fsys.WriteFile("empty", nil, 0))
	check(t, fsys.MkdirAll("made/by/mkdir", 0o700))
	check(t, fsys.MkdirAll("made", 0o755)) // the folder exists already
	check(t, ws.Command("sh", "-c", "ln -s hello.txt link; ln -s deep/er folder").Run())

	t.Run("testing/fstest", func(t *testing.T) {
		check(t, fstest.TestFS(fsys, "hello.txt", "deep/er/run.sh", "large", "empty", "made/by/mkdir", "link", "folder"))
	})
	t.Run("content", func(t *testing.T) {
		content, err := fsys.ReadFile("large")
		check(t, err)
		if !bytes.Equal(content, large) {
			t.Errorf("got %d bytes, which differ from the written ones", len(content))
		}
		f, err := fsys.Open("large")
		check(t, err)
		defer f.Close()
		if _, err := f.(io.Seeker).Seek(-10, io.SeekEnd); err != nil {
			t.Error(err)
		}
		if end, err := io.ReadAll(f); !bytes.Equal(end, large[len(large)-10:]) || err != nil {
			t.Errorf("%q, %v", end, err)
		}
		if content, err := fsys.ReadFile("folder/run.sh"); string(content) != "#!/bin/sh\n" || err != nil {
			t.Errorf("through a link: %q, %v", content, err)
		}
	})
	t.Run("modes", func(t *testing.T) {
		check(t, fsys.WriteFile("deep/er/run.sh", []byte("#!/bin/sh\necho ran\n"), 0))
		for name, mode := range map[string]fs.FileMode{
			"deep/er/run.sh": 0o755, "large": 0o600, "hello.txt": 0o644, "made/by/mkdir": fs.ModeDir | 0o700, "made": fs.ModeDir | 0o755,
		} {
			if info, err := fsys.Stat(name); err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if out, err := ws.Command("deep/er/run.sh").Output(); string(out) != "ran\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		if info, err := fsys.Lstat("link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("link: %v, %v", info, err)
		}
		if target, err := fsys.ReadLink("link"); target != "hello.txt" || err != nil {
			t.Errorf("link: %q, %v", target, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		check(t, ws.Command("sh", "-c", "ln -s /etc/passwd outward; ln -s none broken").Run())
		for _, c := range []struct {
			do   func() error
			want []error
		}{
			{func() error { _, err := fsys.Open("none"); return err }, []error{fs.ErrNotExist, pyro.ErrNotFound}},
			{func() error { _, err := fsys.ReadFile("none/below"); return err }, []error{fs.ErrNotExist}},
			{func() error { _, err := fsys.ReadFile("broken"); return err }, []error{fs.ErrNotExist}},
			{func() error { _, err := fsys.ReadFile("../etc/passwd"); return err }, []error{fs.ErrInvalid}},
			{func() error { _, err := fsys.ReadFile("outward"); return err }, []error{fs.ErrPermission, pyro.ErrPermission}},
			{func() error { _, err := fsys.ReadFile("deep"); return err }, []error{pyro.ErrPrecondition}},
			{func() error { _, err := fsys.ReadDir("hello.txt"); return err }, []error{pyro.ErrPrecondition}},
			{func() error { _, err := fsys.ReadLink("hello.txt"); return err }, []error{fs.ErrInvalid}},
			{func() error { return fsys.Remove("deep") }, []error{pyro.ErrPrecondition}},
			{func() error { return fsys.Remove("none") }, []error{fs.ErrNotExist}},
			{func() error { return fsys.Remove(".") }, []error{fs.ErrInvalid}},
			{func() error { return fsys.RemoveAll(".") }, []error{fs.ErrInvalid}},
			{func() error { return fsys.WriteFile("deep", nil, 0) }, []error{pyro.ErrPrecondition}},
			{func() error { return fsys.WriteFile("hello.txt/x", nil, 0) }, []error{pyro.ErrPrecondition}},
			{func() error { return fsys.MkdirAll("hello.txt", 0o755) }, []error{pyro.ErrPrecondition}},
		} {
			err := c.do()
			var pathError *fs.PathError
			if !errors.As(err, &pathError) {
				t.Errorf("got %v, want a PathError", err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v (%s) is not %v", err, pyro.KindOf(err), want)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := fsys.WithContext(ctx).ReadFile("hello.txt"); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
	t.Run("removing", func(t *testing.T) {
		check(t, fsys.Remove("link"))
		check(t, fsys.Remove("made/by/mkdir"))
		check(t, fsys.RemoveAll("deep"))
		check(t, fsys.RemoveAll("deep"))
		check(t, fsys.RemoveAll("folder")) // a link whose target does not exist any more
		for _, name := range []string{"link", "made/by/mkdir", "deep", "folder"} {
			if _, err := fsys.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s exists: %v", name, err)
			}
		}
		if text, err := fsys.ReadFile("hello.txt"); string(text) != "hello\n" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("net/http serves it", func(t *testing.T) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/hello.txt", nil)
		r.Header.Set("Range", "bytes=1-3")
		http.FileServerFS(fsys).ServeHTTP(w, r)
		if w.Code != http.StatusPartialContent || strings.TrimSpace(w.Body.String()) != "ell" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}
