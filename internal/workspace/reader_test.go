package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/store"
)

// opened returns a reader for everything in a workspace.
func opened(t *testing.T, m *Manager, id string) *reader {
	t.Helper()
	r, err := m.reader(t.Context(), id, "", true)
	check(t, err)
	t.Cleanup(r.close)
	return r
}

func listedBy(t *testing.T, list func(each func(listing.Entry) error) error) (all []listing.Entry) {
	t.Helper()
	check(t, list(func(e listing.Entry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// TestReaderMatchesMachine compares what the host reads with what the machine's agent reads.
func TestReaderMatchesMachine(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := create(t, m, "a/b/file", "one", "a.txt", "two", "z", "three")
	run(t, m, w.ID, "cd a && ln -s ../z link && ln b/file hard && mkdir empty && chmod 2751 b && touch -d @1000000000.123456789 b/file && cd .. && ln -s a folder")
	r := opened(t, m, w.ID)
	if r.host == nil {
		t.Fatal("the host does not read the files")
	}
	for _, path := range []string{"", "a", "folder", "z", "a/link"} {
		for _, deep := range []bool{false, true} {
			got := listedBy(t, func(each func(listing.Entry) error) error { return r.list(ctx, path, deep, each) })
			want := listedBy(t, func(each func(listing.Entry) error) error { return r.client.List(ctx, path, deep, each) })
			if !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("%q, deep %t: %+v\nthe machine has %+v", path, deep, got, want)
			}
		}
		var got, want bytes.Buffer
		check(t, errors.Join(r.tree(ctx, path, &got), r.client.ReadTree(ctx, path, &want)))
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%q: another archive, of %d bytes instead of %d", path, got.Len(), want.Len())
		}
	}
	for _, path := range []string{"none", "z/none", "../../etc"} {
		each := func(listing.Entry) error { return nil }
		got, want := r.list(ctx, path, true, each), r.client.List(ctx, path, true, each)
		if got == nil || want == nil || got.Error() != want.Error() || fault.KindOf(got) != fault.KindOf(want) {
			t.Errorf("list %q: %v\nthe machine says %v", path, got, want)
		}
		var none bytes.Buffer
		got, want = r.tree(ctx, path, &none), r.client.ReadTree(ctx, path, &none)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("read %q: %v\nthe machine says %v", path, got, want)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	seen := 0
	err := r.list(cancelled, "", true, func(listing.Entry) error {
		seen++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("after a cancellation the list had %d entries: %v", seen, err)
	}
	for _, path := range []string{"none", "a", "a/link", "folder/b/file"} {
		if f, err := r.file(ctx, path); err == nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}

// TestReaderFallsBackToMachine checks that the host does not read a folder that lacks files.
func TestReaderFallsBackToMachine(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m, "file", "text")
	disks, err := m.disks(w.Workspace)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(disks.DiskPath(w.Disks.Volume[0]), machine.TreeIncomplete), nil, 0o600))
	run(t, m, w.ID, "echo more >>file; mkfifo pipe; ln -s file link")
	if r := opened(t, m, w.ID); r.host != nil {
		t.Error("the host reads the files")
	}
	var patch bytes.Buffer
	d, err := m.Diff(t.Context(), w.ID, &patch, diff.Options{})
	if err != nil || len(d.Entries) != 3 || !bytes.Contains(patch.Bytes(), []byte("+textmore")) {
		t.Errorf("%+v, %v: %s", d, err, patch.Bytes())
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err = m.Export(t.Context(), w.ID, "", out, ExportOptions{})
	check(t, err)
	if b, err := os.ReadFile(filepath.Join(out, "link")); err != nil || string(b) != "textmore\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := m.ListFiles(t.Context(), w.ID, "none", true, nil); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// TestReaderDetectsReset checks that files of a removed folder do not count as deleted.
func TestReaderDetectsReset(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	ctx := t.Context()
	w := create(t, m, "file", "text")
	r := opened(t, m, w.ID)
	check(t, r.intact(ctx))
	_, err := m.Stop(ctx, store.KindWorkspace, w.ID) // the folder stays
	check(t, err)
	check(t, r.intact(ctx))
	_, err = m.sides(ctx, w.ID)
	wantKind(t, "a stopped workspace", err, fault.Precondition)
	_, err = m.Start(ctx, store.KindWorkspace, w.ID, nil)
	check(t, err)
	s, err := m.sides(ctx, w.ID)
	check(t, err)
	defer s.close()
	_, err = s.compare(ctx, nil, diff.Options{})
	check(t, err)
	_, err = m.Reset(ctx, w.ID, "", nil)
	check(t, err)
	_, err = s.compare(ctx, nil, diff.Options{})
	wantKind(t, "a reset workspace", err, fault.Precondition)
	wantKind(t, "a reset workspace", s.reader.tree(ctx, "", new(bytes.Buffer)), fault.Precondition)
	check(t, m.Delete(ctx, store.KindWorkspace, w.ID))
	wantKind(t, "a deleted workspace", s.reader.intact(ctx), fault.NotFound)
}

// TestReaderAsAnotherUser checks that the host notices files that its user can't read. Root reads
// all files, so the test calls the check itself.
func TestReaderAsAnotherUser(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	w := create(t, m, "a/file", "text", "b", "text")
	r := opened(t, m, w.ID)
	check(t, r.readable(t.Context(), "", true))
	for name, line := range map[string]string{
		"a file": "chmod 0 b", "a folder": "chmod 600 b; chmod 300 a", "a folder without permission": "chmod 400 a",
	} {
		run(t, m, w.ID, line)
		if err := r.readable(t.Context(), "", true); err == nil {
			t.Errorf("%s counts as readable", name)
		}
	}
	run(t, m, w.ID, "chmod 600 b; chmod 700 a")
	check(t, r.readable(t.Context(), "", true))
	if unix.Geteuid() == 0 {
		run(t, m, w.ID, "chown 1:0 b")
		if err := r.readable(t.Context(), "", true); !errors.Is(err, errUnreadable) {
			t.Errorf("the file of another user: %v", err)
		}
	}
}
