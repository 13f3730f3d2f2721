package archive

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPresent checks that a folder leaves out the files that the destination has, and counts them.
func TestPresent(t *testing.T) {
	src := t.TempDir()
	check(t, os.Mkdir(filepath.Join(src, "sub"), 0o755))
	for _, name := range []string{"a", "b", "sub/a", "twice"} {
		check(t, os.WriteFile(filepath.Join(src, name), []byte(name), 0o644))
	}
	check(t, os.Link(filepath.Join(src, "twice"), filepath.Join(src, "sub/twice")))
	check(t, os.Symlink("a", filepath.Join(src, "link")))

	var asked []string
	present := func(path string, file int, st *unix.Stat_t) bool {
		content := make([]byte, st.Size)
		if _, err := unix.Pread(file, content, 0); err != nil || string(content) != path {
			t.Errorf("%s: its file contains %q, %v", path, content, err)
		}
		asked = append(asked, path)
		return path != "b"
	}
	stream, summary, err := seed(t, src, Policy{Present: present, Below: "into"})
	check(t, err)
	if want := []string{"a", "b", "sub/a"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, not %q: a file with two names must be in the archive", asked, want)
	}
	if want := (Summary{Files: 4, Unchanged: 2, Directories: 1, Symlinks: 1, HardLinks: 1, Bytes: 12}); summary != want {
		t.Errorf("got %+v, want %+v", summary, want)
	}
	var names []string
	eachEntry(t, stream, func(h *tar.Header, _ io.Reader) { names = append(names, h.Name) })
	if want := []string{"into/b", "into/link", "into/twice", "into/sub/", "into/sub/twice"}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q, not %q", names, want)
	}

	if _, _, err := seed(t, src, Policy{Present: present, Limits: Limits{Bytes: 11}}); err == nil {
		t.Error("the limit does not count files that are present")
	}
	appending := func(path string, _ int, _ *unix.Stat_t) bool {
		check(t, os.WriteFile(filepath.Join(src, path), []byte("longer than before"), 0o644))
		return true
	}
	if _, _, err := seed(t, src, Policy{Present: appending}); err == nil {
		t.Error("a file changed while it was compared, and there was no error")
	}
}
