package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/patch"
)

// entries is a tree of files. Every file has the content "x\n". The identity of an entry is "was "
// and its path.
type entries map[string]fs.FileMode

func (t entries) Stat(_ context.Context, path string) (patch.Entry, error) {
	mode, ok := t[path]
	if !ok {
		return patch.Entry{}, fs.ErrNotExist
	}
	return patch.Entry{Mode: mode, Size: 2, Link: "x", Identity: "was " + path}, nil
}

func (t entries) Read(context.Context, string) ([]byte, error) { return []byte("x\n"), nil }

func (t entries) List(_ context.Context, dir string) (names []string, err error) {
	for path := range t {
		if name, ok := strings.CutPrefix(path, dir+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, nil
}

// TestChangeExpectations checks that the operations of a patch expect the state before the patch. A
// file that replaces a folder has no expectation.
func TestChangeExpectations(t *testing.T) {
	text := "--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+new\n" +
		"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+new\n" +
		"diff --git a/l b/l\nindex 1111..2222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
	plan, err := patch.Check(context.Background(), []byte(text), entries{"d": fs.ModeDir | 0o755, "d/f": 0o644, "f": 0o644, "l": fs.ModeSymlink | 0o777})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	to := tar.NewWriter(&archive)
	if err := writePlan(to, plan); err != nil {
		t.Fatal(err)
	}
	to.Close()
	var got []string
	for r := tar.NewReader(&archive); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%c %s%s %s: %s", h.Typeflag, h.Name, h.Linkname, h.PAXRecords[volume.RecordOperation], h.PAXRecords[volume.RecordExpect]))
	}
	want := "0 d/f delete: was d/f\n5 d/ delete: \n0 d : \n0 f : was f\n2 ly : was l\n0 n : absent"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nnot\n%s", strings.Join(got, "\n"), want)
	}
}
