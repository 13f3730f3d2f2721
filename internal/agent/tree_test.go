package agent

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/agent/volume/volumetest"
)

// archive calls GET /volume/tree. It returns the archive and its counts.
func (s *stored) archive(t testing.TB, path string) (archive []byte, counts string) {
	t.Helper()
	r := s.call(t, http.MethodGet, "/volume/tree", url.Values{"path": {path}}, nil)
	if status, _, text := ended(r); status != 200 {
		t.Fatalf("%q: %d %.100q, %s", path, status, r.Body, text)
	}
	return r.Body.Bytes(), r.Result().Trailer.Get(countsTrailer)
}

// TestTreeMatchesTar unpacks tree archives with GNU tar, and compares the result with the
// original trees.
func TestTreeMatchesTar(t *testing.T) {
	for seed := range 5 {
		s := newStored(t)
		randomTree(t, s.files, int64(seed), 300)
		if err := os.Truncate(filepath.Join(s.files, "first"), 1<<20); err != nil {
			t.Fatal(err)
		}
		volumetest.Put(t, s.files+"/"+strings.Repeat(strings.Repeat("deep", 60)+"/", 5)+"file", "x")
		archive, counts := s.archive(t, "")
		dir := t.TempDir()
		cmd := exec.Command("tar", "--warning=no-timestamp", "-xpf", "-", "-C", dir)
		cmd.Stdin = bytes.NewReader(archive)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("seed %d: tar: %v: %.500s", seed, err, out)
		}
		// The archive does not contain special files, so remove the pipes from the original.
		pipes, err := exec.Command("find", s.files, "-type", "p", "-printf", ".", "-delete").Output()
		if err != nil {
			t.Fatal(err)
		}
		want, got := volumetest.Tree(t, s.files), volumetest.Tree(t, dir)
		if got != want {
			t.Errorf("seed %d: unpacked %s", seed, volumetest.Differ(got, want))
		}
		if reported := fmt.Sprintf("%d %d 0", strings.Count(want, "\n"), len(pipes)); counts != reported || len(pipes) == 0 {
			t.Errorf("seed %d: counts %q, and not %q", seed, counts, reported)
		}
	}
}

func TestTreeNames(t *testing.T) {
	s := newStored(t)
	volumetest.Put(t, s.files+"/a/b/file", "12345")
	os.Link(s.files+"/a/b/file", s.files+"/a/b/same")
	os.Symlink("b", s.files+"/a/link")
	os.Mkdir(s.files+"/a/empty", 0o755)
	for path, want := range map[string]string{
		"":         `"./" "./a/" "./a/b/" "./a/b/file" "./a/b/same"="./a/b/file" "./a/empty/" "./a/link"="b"`,
		"a":        `"a/" "a/b/" "a/b/file" "a/b/same"="a/b/file" "a/empty/" "a/link"="b"`,
		"a/b/file": `"file"`,
		"a/b/same": `"same"`,
		"a/link":   `"link/" "link/file" "link/same"="link/file"`, // a link at the end of the requested path is followed
		"a/empty":  `"empty/"`,
	} {
		archive, _ := s.archive(t, path)
		var got []string
		entries := tar.NewReader(bytes.NewReader(archive))
		for {
			h, err := entries.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%q", h.Name)
			if h.Linkname != "" {
				name += fmt.Sprintf("=%q", h.Linkname)
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %s", path, strings.Join(got, " "))
		}
	}
}

func BenchmarkTree(b *testing.B) {
	s := newStored(b)
	manyFiles(b, s.files)
	b.Run("tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			top, err := os.Open(s.files)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := volume.WriteTree(io.Discard, top, ""); err != nil {
				b.Fatal(err)
			}
			top.Close()
		}
	})
	b.Run("tar", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("tar", "--format=pax", "-cf", "-", ".")
			cmd.Dir = s.files
			cmd.Stdout = struct{ io.Writer }{io.Discard}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
