package workspace

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/archive"
)

// interfering is a source that calls a function before each end of its archive. By then, a push has
// compared all files.
type interfering struct {
	archive.Source
	before func()
}

func (s interfering) WriteTar(ctx context.Context, w io.Writer, policy archive.Policy) (archive.Summary, error) {
	summary, err := s.Source.WriteTar(ctx, w, policy)
	s.before()
	return summary, err
}

// pushedTwice pushes a folder with files, then changes its file "new", and returns a second push.
func pushedTwice(t *testing.T, m *Manager, id string, files int, before func(p *push)) *push {
	t.Helper()
	from := t.TempDir()
	at := time.Unix(1_700_000_000, 5)
	put := func(name, text string) {
		path := filepath.Join(from, name)
		check(t, os.WriteFile(path, []byte(text), 0o644))
		check(t, os.Chtimes(path, at, at))
	}
	for i := range files {
		put(fmt.Sprint("same", i), "same")
	}
	put("new", "old")
	_, err := m.Push(t.Context(), id, from, "", false, nil)
	check(t, err)
	put("new", "new")
	there := opened(t, m, id)
	source, _, err := openPushed(from)
	check(t, err)
	t.Cleanup(func() { source.Close() })
	p := &push{there: there}
	p.source = interfering{source, func() { before(p) }}
	return p
}

// TestPushWhileFilesChange changes a file after it was compared. The push must replace it.
func TestPushWhileFilesChange(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m)
	for times, replaced := range map[int]int64{1: 2, 3: 6} { // the third copy contains all files
		n := 0
		p := pushedTwice(t, m, w.ID, 3, func(*push) {
			if n++; n <= times {
				run(t, m, w.ID, fmt.Sprintf("printf evil >same%[1]d; touch -d @1700000000.000000005 same%[1]d", n-1))
			}
		})
		_, changed, err := p.run(t.Context())
		check(t, err)
		if want := min(times, 2) + 1; n != want {
			t.Errorf("changed %d times: %d copies, not %d", times, n, want)
		}
		if changed.Replaced != replaced {
			t.Errorf("changed %d times: %+v, not %d replaced", times, changed, replaced)
		}
		for name, want := range map[string]string{"same0": "same", "same1": "same", "same2": "same", "new": "new"} {
			wantFile(t, m, w.ID, name, want)
		}
	}
}

// TestPushThatCanNotFlush checks that a push changes nothing if the files that it leaves out can't
// be flushed.
func TestPushThatCanNotFlush(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m)
	p := pushedTwice(t, m, w.ID, flushesOfFiles+1, func(p *push) { p.there.folder.Close() })
	if _, _, err := p.run(t.Context()); err == nil {
		t.Error("the push succeeded")
	}
	wantFile(t, m, w.ID, "new", "old")
}

// TestPushOfPresentFiles checks which sources of a push are compared.
func TestPushOfPresentFiles(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m)
	run(t, m, w.ID, "mkdir real && ln -s real link")
	from := t.TempDir()
	check(t, os.WriteFile(filepath.Join(from, "file"), []byte("text"), 0o644))
	for name, source := range map[string]string{"a folder": from, "a file": filepath.Join(from, "file")} {
		for n, want := range []int{0, 1} {
			s, err := m.Push(t.Context(), w.ID, source, "link/"+filepath.Base(source), false, nil)
			check(t, err)
			if s.Summary.Unchanged != want || s.Summary.Files != 1 || s.Changed.Replaced != 0 {
				t.Errorf("%s, push %d: %+v %+v", name, n+1, s.Summary, s.Changed)
			}
		}
	}
}
