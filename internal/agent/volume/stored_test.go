package volume

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// stored is a volume in a directory.
type stored struct {
	volume *Volume
	dir    string // the root of the volume
	files  string // the workspace
}

func storedIn(t testing.TB, dir string) *stored {
	t.Helper()
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &stored{dir: dir, files: filepath.Join(dir, FilesFolder)}
	if s.volume, _, err = Open(root, LocalFS); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(t) })
	return s
}

func (s *stored) close(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	if err := s.volume.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (s *stored) change(t testing.TB, archive []byte) (Counts, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	return s.volume.Change(ctx, bytes.NewReader(archive))
}
