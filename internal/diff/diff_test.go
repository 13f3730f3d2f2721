package diff_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/fault"
)

func compare(t *testing.T, before, after diff.Tree, o diff.Options) (*diff.Result, string) {
	t.Helper()
	var patch strings.Builder
	result, err := diff.Compare(context.Background(), before, after, &patch, o)
	if err != nil {
		t.Fatal(err)
	}
	return result, patch.String()
}

func file(text string) difftest.Node { return difftest.Node{Mode: 0o644, Data: []byte(text)} }

func TestEveryChangeIsAnEntry(t *testing.T) {
	link := func(target string) difftest.Node { return difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: target} }
	mode := func(m fs.FileMode) difftest.Node { return difftest.Node{Mode: m} }
	before := difftest.Tree{
		"same": file("x\n"), "text": file("one\ntwo\nthree\n"), "chmod": file("y\n"), "gone": file("1\n2\n"), "binary": file("a\x00b"), "latin": file("caf\xe9\n"),
		"link": link("here"), "was a link": link("here"), "dir": mode(fs.ModeDir | 0o755), "empty": mode(fs.ModeDir | 0o755), "fifo": mode(fs.ModeNamedPipe | 0o644),
		"device": mode(fs.ModeDevice | 0o600), "suid": {Mode: 0o755, Data: []byte("s")}, "touched": {Mode: fs.ModeSymlink | 0o700, Link: "t"},
	}
	after := difftest.Tree{
		"same": file("x\n"), "text": file("one\n2\n3\nthree\n"), "chmod": {Mode: 0o600, Data: []byte("y\n")}, "binary": file("a\x00bc"), "latin": file("caf\xe9s\n"),
		"link": link("there"), "was a link": file("now a file\n"), "dir": mode(fs.ModeDir | fs.ModeSticky | 0o777), "new": {Mode: 0o755, Data: []byte("#!\n")},
		"newdir": mode(fs.ModeDir | 0o700), "fifo": mode(fs.ModeNamedPipe | 0o600), "device": mode(fs.ModeDevice | fs.ModeCharDevice | 0o600),
		"suid": {Mode: 0o755 | fs.ModeSetuid, Data: []byte("s")}, "touched": {Mode: fs.ModeSymlink | 0o777, Link: "t"}, "socket": mode(fs.ModeSocket | 0o755),
	}
	got, patch := compare(t, before, after, diff.Options{})
	want := []diff.Change{
		{Path: "binary", Status: diff.Modified, Kind: diff.File, OldSize: 3, NewSize: 4, Binary: true},
		{Path: "chmod", Status: diff.Modified, Kind: diff.File, OldMode: "0644", NewMode: "0600", OldSize: 2, NewSize: 2},
		{Path: "device", Status: diff.TypeChanged, Kind: diff.Other},
		{Path: "dir", Status: diff.Modified, Kind: diff.Directory, OldMode: "0755", NewMode: "1777"},
		{Path: "empty", Status: diff.Deleted, Kind: diff.Directory, OldMode: "0755"},
		{Path: "fifo", Status: diff.Modified, Kind: diff.Other, OldMode: "0644", NewMode: "0600"},
		{Path: "gone", Status: diff.Deleted, Kind: diff.File, OldMode: "0644", OldSize: 4, LinesRemoved: 2},
		{Path: "latin", Status: diff.Modified, Kind: diff.File, OldSize: 5, NewSize: 6, Binary: true},
		{Path: "link", Status: diff.Modified, Kind: diff.Symlink, OldLink: "here", NewLink: "there", LinesAdded: 1, LinesRemoved: 1},
		{Path: "new", Status: diff.Added, Kind: diff.File, NewMode: "0755", NewSize: 3, LinesAdded: 1},
		{Path: "newdir", Status: diff.Added, Kind: diff.Directory, NewMode: "0700"},
		{Path: "socket", Status: diff.Added, Kind: diff.Other, NewMode: "0755"},
		{Path: "suid", Status: diff.Modified, Kind: diff.File, OldMode: "0755", NewMode: "4755", OldSize: 1, NewSize: 1},
		{Path: "text", Status: diff.Modified, Kind: diff.File, OldSize: 14, NewSize: 14, LinesAdded: 2, LinesRemoved: 1},
		{Path: "was a link", Status: diff.TypeChanged, Kind: diff.File, OldKind: diff.Symlink, NewMode: "0644", OldLink: "here", NewSize: 11, LinesAdded: 1, LinesRemoved: 1},
	}
	// The text of the modes is tested. Before and After are the same modes.
	if d := cmp.Diff(want, got.Entries, cmpopts.IgnoreFields(diff.Change{}, "Before", "After")); d != "" {
		t.Error(d)
	}
	summary := diff.Summary{Added: 3, Modified: 8, Deleted: 2, TypeChanged: 2, ModeChanged: 4, Binary: 2, LinesAdded: 5, LinesRemoved: 5}
	if d := cmp.Diff(summary, got.Summary); d != "" {
		t.Error(d)
	}
	if hunk := "--- a/text\n+++ b/text\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+3\n three\n"; !strings.Contains(patch, hunk) {
		t.Errorf("the patch has no\n%s but is\n%s", hunk, patch)
	}
	for _, absent := range []string{"chmod", "suid", "fifo", "empty", "newdir"} {
		if strings.Contains(patch, "a/"+absent) {
			t.Errorf("git knows nothing of %s", absent)
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	result, _ := compare(t, difftest.Tree{}, difftest.Tree{"f": file("x")}, diff.Options{})
	got, err := json.Marshal(result)
	want := `{"entries":[{"path":"f","status":"added","kind":"file","new_mode":"0644","old_size":0,"new_size":1,"binary":false,"lines_added":1,"lines_removed":0}],` +
		`"summary":{"added":1,"modified":0,"deleted":0,"type_changed":0,"mode_changed":0,"binary":0,"patch_omitted":0,"lines_added":1,"lines_removed":0,"ignored":0},` +
		`"truncated":false,"entries_truncated":false}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if result, _ := compare(t, difftest.Tree{}, difftest.Tree{}, diff.Options{}); result.Entries == nil {
		t.Error("no entries are null in JSON")
	}
}

// tree is a tree with an artificial listing and artificial content.
type tree struct {
	entries []diff.Entry
	open    func(path string) (io.ReadCloser, error)
	fails   error // error at the end of the listing
}

func (t tree) List(context.Context) iter.Seq2[diff.Entry, error] {
	return func(yield func(diff.Entry, error) bool) {
		for _, e := range t.entries {
			if !yield(e, nil) {
				return
			}
		}
		if t.fails != nil {
			yield(diff.Entry{}, t.fails)
		}
	}
}

func (t tree) Open(_ context.Context, path string) (io.ReadCloser, error) { return t.open(path) }

func TestUnchangedFilesAreNotRead(t *testing.T) {
	never := func(path string) (io.ReadCloser, error) { return nil, fmt.Errorf("%s was read", path) }
	entries := []diff.Entry{
		{Path: "dir", Mode: fs.ModeDir | 0o755}, {Path: "dir/f", Mode: 0o644, Size: 5, Identity: "i"}, {Path: "dir-f", Mode: 0o755, Size: 5, Identity: "j"},
		{Path: "link", Mode: fs.ModeSymlink, Link: "x"},
	}
	other := append([]diff.Entry{}, entries...)
	other[1].Mode = 0o600
	result, patch := compare(t, tree{entries: entries, open: never}, tree{entries: other, open: never}, diff.Options{})
	if len(result.Entries) != 1 || result.Entries[0].NewMode != "0600" || patch != "" {
		t.Errorf("%+v %s", result, patch)
	}
	other[1].Identity = ""
	if _, err := diff.Compare(context.Background(), tree{entries: entries, open: never}, tree{entries: other, open: never}, nil, diff.Options{}); err == nil {
		t.Error("got no error for two files without an identity that can't be read")
	}
}

func TestInvalidListings(t *testing.T) {
	f := func(paths ...string) (entries []diff.Entry) {
		for _, p := range paths {
			entries = append(entries, diff.Entry{Path: p, Mode: 0o644, Identity: "same"})
		}
		return entries
	}
	for name, entries := range map[string][]diff.Entry{
		"up":               f("../x"),
		"up within":        f("a/../b"),
		"absolute":         f("/etc"),
		"the root":         f("."),
		"nothing":          f(""),
		"an empty name":    f("a//b"),
		"a zero byte":      f("a\x00b"),
		"a long path":      f(strings.Repeat("a/", 2048) + "a"),
		"a long name":      f(strings.Repeat("a", 256)),
		"out of order":     f("b", "a"),
		"twice":            f("a", "a"),
		"bytes, not depth": {{Path: "a", Mode: fs.ModeDir}, {Path: "a-b"}, {Path: "a/b"}},
		"in a file":        f("a", "a/b"),
		"negative":         {{Path: "a", Size: -1}},
		"a link to nil":    {{Path: "a", Mode: fs.ModeSymlink}},
		"a long link":      {{Path: "a", Mode: fs.ModeSymlink, Link: strings.Repeat("x", 4096)}},
		"a link with zero": {{Path: "a", Mode: fs.ModeSymlink, Link: "a\x00"}},
	} {
		_, err := diff.Compare(context.Background(), difftest.Tree{}, tree{entries: entries, open: at(difftest.Tree{"a": file("")})}, nil, diff.Options{})
		if name == "out of order" || name == "twice" || name == "in a file" { // These listings contain a and b, which would be read before the error.
			_, err = diff.Compare(context.Background(), tree{entries: entries}, tree{entries: entries}, nil, diff.Options{})
		}
		if fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTreeErrors(t *testing.T) {
	broken := errors.New("broken")
	a := tree{entries: []diff.Entry{{Path: "f", Mode: 0o644, Size: 1}}, open: func(string) (io.ReadCloser, error) { return nil, broken }}
	for name, pair := range map[string][2]diff.Tree{
		"list before": {tree{fails: broken}, difftest.Tree{}}, "list after": {difftest.Tree{}, tree{fails: broken}},
		"read before": {a, difftest.Tree{}}, "read after": {difftest.Tree{}, a},
	} {
		if _, err := diff.Compare(context.Background(), pair[0], pair[1], nil, diff.Options{}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := diff.Compare(ctx, a, a, nil, diff.Options{}); fault.KindOf(err) != fault.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// TestDeletedFile checks a file that is deleted after the listing and before the read.
func TestDeletedFile(t *testing.T) {
	gone := tree{entries: []diff.Entry{{Path: "a", Mode: 0o644}, {Path: "b", Mode: 0o644}}, open: at(difftest.Tree{})}
	result, _ := compare(t, difftest.Tree{"b": file("x\n")}, gone, diff.Options{})
	if len(result.Entries) != 1 || result.Entries[0].Status != diff.Deleted || result.Entries[0].LinesRemoved != 1 {
		t.Errorf("%+v", result)
	}
	large := diff.Entry{Path: "large", Mode: 0o644, Size: diff.MaxContent + 1}
	there := func(string) (io.ReadCloser, error) { return io.NopCloser(rand.Reader), nil }
	result, _ = compare(t, tree{entries: []diff.Entry{large}, open: there}, tree{entries: []diff.Entry{large}, open: at(difftest.Tree{})}, diff.Options{})
	if len(result.Entries) != 1 || result.Entries[0].Status != diff.Deleted {
		t.Errorf("%+v", result)
	}
}

// TestFileSizeDiffersFromListing checks that the size of the content counts, not the listed size.
func TestFileSizeDiffersFromListing(t *testing.T) {
	liar := tree{entries: []diff.Entry{{Path: "a", Mode: 0o644, Size: 1}}, open: at(difftest.Tree{"a": file("three")})}
	if result, _ := compare(t, difftest.Tree{"a": file("three")}, liar, diff.Options{}); len(result.Entries) != 0 {
		t.Errorf("%+v", result)
	}
	endless := tree{entries: []diff.Entry{{Path: "a", Mode: 0o644, Size: 1}}, open: func(string) (io.ReadCloser, error) { return io.NopCloser(rand.Reader), nil }}
	if result, patch := compare(t, difftest.Tree{}, endless, diff.Options{}); !result.Entries[0].PatchOmitted || patch != "" {
		t.Errorf("%+v %s", result, patch)
	}
}

func TestLargeFiles(t *testing.T) {
	big := func(size int, last byte) difftest.Node {
		b := bytes.Repeat([]byte("x"), size)
		b[size-1] = last
		return difftest.Node{Mode: 0o644, Data: b}
	}
	lines := strings.Repeat("line\n", diff.MaxLines)
	before := difftest.Tree{"equal": big(diff.MaxContent+9, 'y'), "end": big(diff.MaxContent+9, 'y'), "longer": big(diff.MaxContent+1, 'y'), "literal": big(diff.MaxText+1, 'y'), "lines": file("")}
	after := difftest.Tree{"equal": big(diff.MaxContent+9, 'y'), "end": big(diff.MaxContent+9, 'z'), "longer": big(diff.MaxContent+2, 'y'), "literal": big(diff.MaxText+1, 'z'), "lines": file(lines)}
	result, patch := compare(t, before, after, diff.Options{})
	type notes struct{ Binary, Omitted bool }
	got := map[string]notes{}
	for _, c := range result.Entries {
		got[c.Path] = notes{c.Binary, c.PatchOmitted}
	}
	if d := cmp.Diff(map[string]notes{"end": {true, true}, "longer": {true, true}, "literal": {true, false}, "lines": {true, false}}, got); d != "" {
		t.Error(d)
	}
	if strings.Contains(patch, "Binary files") || strings.Count(patch, "GIT binary patch") != 2 || result.Summary.PatchOmitted != 2 {
		t.Errorf("%+v", result.Summary)
	}
	if result, _ := compare(t, difftest.Tree{}, difftest.Tree{"f": file(lines[:len(lines)-5])}, diff.Options{}); result.Entries[0].Binary {
		t.Error("a text within the limit is binary")
	}
}

// TestGitAppliesPatchWithoutLargeFiles checks that files that are too large for the patch do not
// make git reject the patch.
func TestGitAppliesPatchWithoutLargeFiles(t *testing.T) {
	difftest.NeedsGit(t)
	large := func(mode fs.FileMode, text string) difftest.Node {
		return difftest.Node{Mode: mode, Data: bytes.Repeat([]byte(text), diff.MaxContent+1)}
	}
	link := difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: "a"}
	for name, c := range map[string]struct{ before, after difftest.Tree }{
		"added":                {difftest.Tree{}, difftest.Tree{"f": large(0o644, "x")}},
		"deleted":              {difftest.Tree{"f": large(0o644, "x")}, difftest.Tree{}},
		"modified":             {difftest.Tree{"f": large(0o644, "x")}, difftest.Tree{"f": large(0o644, "y")}},
		"modified, executable": {difftest.Tree{"f": large(0o644, "x")}, difftest.Tree{"f": large(0o755, "y")}},
		"became a link":        {difftest.Tree{"f": large(0o644, "x")}, difftest.Tree{"f": link}},
		"was a link":           {difftest.Tree{"f": link}, difftest.Tree{"f": large(0o644, "x")}},
	} {
		t.Run(name, func(t *testing.T) {
			c.before["a"], c.after["a"] = file("1\n"), file("2\n")
			result, patch := compare(t, c.before, c.after, diff.Options{})
			if s := result.Summary; s.PatchOmitted != 1 || s.LinesAdded < 1 {
				t.Errorf("%+v", s)
			}
			dir := t.TempDir()
			if err := c.before.Write(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := difftest.Git(dir, patch, "apply", "-"); err != nil {
				t.Fatalf("%v\n%s", err, patch)
			}
			made, err := difftest.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, there := c.before["f"]; there {
				c.after["f"] = c.before["f"]
			} else {
				delete(c.after, "f")
			}
			if said := difftest.Unequal(made.Git(), c.after.Git()); said != "" {
				t.Error(said)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	after := difftest.Tree{}
	for i := range 20 {
		after[fmt.Sprintf("f%02d", i)] = file("text\n")
	}
	whole, text := compare(t, difftest.Tree{}, after, diff.Options{})
	one := len(text) / 20
	part, cut := compare(t, difftest.Tree{}, after, diff.Options{PatchLimit: int64(10*one + one - 1)})
	if !part.Truncated || cut != text[:10*one] || len(part.Entries) != 20 || part.Summary.PatchOmitted != 10 || !part.Entries[10].PatchOmitted || part.Entries[9].PatchOmitted {
		t.Errorf("%d bytes of %d, %+v", len(cut), len(text), part.Summary)
	}
	if exact, cut := compare(t, difftest.Tree{}, after, diff.Options{PatchLimit: int64(len(text))}); exact.Truncated || cut != text {
		t.Error("a patch that just fits was cut")
	}
	few, _ := compare(t, difftest.Tree{}, after, diff.Options{EntryLimit: 5})
	if !few.EntriesTruncated || len(few.Entries) != 5 || few.Summary != whole.Summary || few.Truncated {
		t.Errorf("%+v", few)
	}
}

// TestManyFiles compares trees that are larger than the memory limit of the test.
func TestManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	peak := uint64(0)
	list := func(files int, identity string) listing {
		return func(yield func(diff.Entry, error) bool) {
			for i := range files {
				if i%20_000 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
				}
				if !yield(diff.Entry{Path: fmt.Sprintf("directory-%03d/file-%07d", i/1000, i), Mode: 0o644, Size: 10, Identity: identity}, nil) {
					return
				}
			}
		}
	}
	result, err := diff.Compare(context.Background(), list(100_000, "i"), list(100_000, "i"), nil, diff.Options{})
	if err != nil || len(result.Entries) != 0 {
		t.Fatal(err, result)
	}
	if result, err = diff.Compare(context.Background(), list(30_000, ""), list(30_000, ""), nil, diff.Options{}); err != nil || len(result.Entries) != 0 {
		t.Fatal(err, result)
	}
	if peak > 8<<20 {
		t.Errorf("got %d bytes in memory", peak)
	}
}

// listing is a tree of files with equal content.
type listing iter.Seq2[diff.Entry, error]

func (t listing) List(context.Context) iter.Seq2[diff.Entry, error] {
	return iter.Seq2[diff.Entry, error](t)
}
func (t listing) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("0123456789")), nil
}

// at returns a function that opens the files of t.
func at(t difftest.Tree) func(string) (io.ReadCloser, error) {
	return func(path string) (io.ReadCloser, error) { return t.Open(context.Background(), path) }
}
