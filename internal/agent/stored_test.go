package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stored is a server with a volume.
type stored struct {
	*Server
	volume *Volume
	place  *withVolume
	dir    string // the root of the volume
	files  string // the workspace
}

// withVolume is a place that has a volume.
type withVolume struct {
	folder
	volume *Volume
}

func (p *withVolume) Volume() (*Volume, error) {
	if p.volume == nil {
		return nil, ErrNoVolume
	}
	return p.volume, nil
}

func newStored(t testing.TB) *stored {
	t.Helper()
	return storedIn(t, t.TempDir())
}

func storedIn(t testing.TB, dir string) *stored {
	t.Helper()
	s := &stored{dir: dir, files: filepath.Join(dir, FilesFolder)}
	s.volume, _ = openVolume(t, dir, Whole)
	s.place = &withVolume{volume: s.volume}
	s.Server = New(s.place, "test")
	t.Cleanup(func() { closeVolume(t, s.volume) })
	return s
}

func openVolume(t testing.TB, dir string, reach Reach) (*Volume, Recovered) {
	t.Helper()
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, recovered, err := OpenVolume(root, reach)
	if err != nil {
		t.Fatal(err)
	}
	return v, recovered
}

func closeVolume(t testing.TB, v *Volume) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Close(ctx); err != nil {
		t.Error(err)
	}
}

// inMemory gives a folder where flushing costs nothing, where there is one.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pyro-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if os.RemoveAll(dir) != nil { // folders that are closed to their owner
			exec.Command("chmod", "-R", "u+rwx", dir).Run()
			os.RemoveAll(dir)
		}
	})
	return dir
}

// call makes a call for the volume. It must answer at once.
func (s *stored) call(t testing.TB, method, path string, q url.Values, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	renewed := newSession()
	renewed.renewed.Store(true)
	r := httptest.NewRequestWithContext(context.WithValue(ctx, sessionKey{}, renewed), method, path+"?"+q.Encode(), body)
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.volumePaths()[path](rec, r)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s %s %v hangs", method, path, q)
	}
	return rec
}

func (s *stored) read(t testing.TB, path string) (status int, answer string) {
	t.Helper()
	r := s.call(t, http.MethodGet, "/volume/file", url.Values{"path": {path}, "offset": {"0"}, "limit": {"0"}}, nil)
	return r.Code, strings.TrimSpace(r.Body.String())
}

func (s *stored) write(t testing.TB, path string, mode int, parents bool, content string) (status int, answer string) {
	t.Helper()
	r := s.call(t, http.MethodPut, "/volume/file", url.Values{
		"path": {path}, "mode": {strconv.Itoa(mode)}, "parents": {strconv.FormatBool(parents)}, "size": {strconv.Itoa(len(content))},
	}, strings.NewReader(content))
	return r.Code, strings.TrimSpace(r.Body.String())
}

func put(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// tree describes all that is in a folder: what each thing is, its mode, owner, time, content or target, and which names are of one file.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%q %v %d:%d", name, info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %d %.8x", info.Size(), info.ModTime().UnixNano(), sha256.Sum256(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", target)
		}
		if !info.IsDir() && st.Nlink > 1 {
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			fmt.Fprintf(&b, " as %q", first[st.Ino])
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differ says where two trees part.
func differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("of %d and %d it is\n%.300s\nand not\n%.300s", len(a), len(b), a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and not %d, after %.300s", len(a), len(b), a[min(len(a), len(b))-1])
}

// nothingPending checks that nothing of what was staged is left.
func nothingPending(t testing.TB, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Join(dir, pendingFolder)); err != nil || len(entries) > 0 {
		t.Errorf("pending are %v, %v", entries, err)
	}
}
