package workspace

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// readTree is a tree that records the files that are read.
type readTree struct {
	diff.Tree
	read *[]string
}

func (r readTree) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	*r.read = append(*r.read, path)
	return r.Tree.Open(ctx, path)
}

// TestDiffAfterSnapshotReadsChangedFiles checks which files a diff reads if volumes are made of
// hard links. A snapshot makes another link of each file, which sets its change time.
func TestDiffAfterSnapshotReadsChangedFiles(t *testing.T) {
	ctx := t.Context()
	f := storage.Folder{Path: filepath.Join(t.TempDir(), "one"), Links: true}
	d, err := f.Create(ctx, func(_ context.Context, to io.Writer) error {
		w := tar.NewWriter(to)
		for _, name := range []string{"a", "b", "c", "same"} {
			check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(name))}))
			if _, err := w.Write([]byte(name)); err != nil {
				return err
			}
		}
		return w.Close()
	})
	check(t, err)
	snapshot := func() store.Disks {
		s, err := f.Prepare(ctx, d, false)
		check(t, err)
		check(t, f.Take(ctx, s))
		d = s.Next
		return s.Disks
	}
	// change does what the machine does: it replaces a link by a file before the first change.
	change := func(name, text string) {
		path := filepath.Join(f.DiskPath(d.Volume[0]), "files", name)
		check(t, os.Remove(path))
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	compare := func(want []diff.Change, read ...string) {
		t.Helper()
		folder, err := f.OpenComplete(d)
		check(t, err)
		defer folder.Close()
		s, err := sidesOf(&reader{record: store.Workspace{Disks: d}, host: volume.NewReader(folder)}, f)
		check(t, err)
		defer s.closer.Close()
		var was, is []string
		got, err := diff.Compare(ctx, readTree{s.baseline, &was}, readTree{s.current, &is}, nil, diff.Options{})
		check(t, err)
		if !slices.EqualFunc(got.Entries, want, func(a, b diff.Change) bool { return a.Path == b.Path && a.Kind == b.Kind }) {
			t.Errorf("%+v", got.Entries)
		}
		if !slices.Equal(is, read) || len(was) > len(is) {
			t.Errorf("read %v and %v of the baseline, not %v", is, was, read)
		}
	}
	compare(nil)
	kept := snapshot()
	var st, other os.FileInfo
	if st, err = os.Stat(filepath.Join(f.DiskPath(d.Baseline[0]), "files/a")); err == nil {
		other, err = os.Stat(filepath.Join(f.DiskPath(d.Volume[0]), "files/a"))
	}
	check(t, err)
	if !os.SameFile(st, other) {
		testenv.Lacks(t, "extended attributes of users on the file system")
	}
	compare(nil)
	change("a", "A")
	change("same", "same")
	modified := []diff.Change{{Path: "a", Kind: diff.File}}
	compare(modified, "a", "same")
	snapshot()
	compare(modified, "a", "same")
	d, err = f.Reset(ctx, kept, d, false)
	check(t, err)
	compare(nil)
	change("c", "C")
	compare([]diff.Change{{Path: "c", Kind: diff.File}}, "c")
}
