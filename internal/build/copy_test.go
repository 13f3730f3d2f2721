package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// folder creates a folder of the host. A name that ends in a slash is a folder, and a content that
// begins with "-> " is a link.
func folder(t *testing.T, entries ...string) view.Tree {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(entries); i += 2 {
		path := filepath.Join(dir, entries[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(entries[i+1], "-> ")
		var err error
		switch {
		case strings.HasSuffix(entries[i], "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(entries[i+1]), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return view.Folder(root)
}

// listed lists the files of a tree with their content, without folders.
func listed(t *testing.T, tree view.Tree) []string {
	t.Helper()
	var all []string
	var walk func(name string)
	walk = func(name string) {
		entries, err := tree.ReadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			at := strings.TrimPrefix(name+"/"+e.Name(), "./")
			switch {
			case e.IsDir():
				walk(at)
			case e.Type()&fs.ModeSymlink != 0:
				target, _ := tree.ReadLink(at)
				all = append(all, at+" -> "+target)
			default:
				text, err := fs.ReadFile(tree, at)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, at+" "+string(text))
			}
		}
	}
	walk(".")
	return all
}

// copied returns the tree that results from a copy.
func copied(t *testing.T, c copying, lower view.Tree, workdir string) (view.Tree, error) {
	t.Helper()
	a, err := c.collect(t.Context(), lower, workdir)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if _, err := a.write(t.Context(), &layer); err != nil {
		t.Fatal(err)
	}
	return view.Over(t.Context(), lower, bytes.NewReader(layer.Bytes()), int64(layer.Len()))
}

func TestCopy(t *testing.T) {
	from := []string{"a", "A", "b", "B", "dir/x", "X", "dir/sub/y", "Y", "dir/l", "-> x", "link", "-> dir", "to-a", "-> a", "out", "-> /etc/passwd"}
	lower := []string{"etc/old", "O", "bin", "-> usr/bin", "usr/bin/sh", "S", "srv/file", "F", "root/", ""}
	old := []string{"bin -> usr/bin", "etc/old O", "srv/file F", "usr/bin/sh S"}
	for name, c := range map[string]struct {
		paths   []string
		to      string
		workdir string
		want    []string // added files
	}{
		"a file to a new name":                 {[]string{"a"}, "/new", "", []string{"new A"}},
		"a file to a new folder":               {[]string{"a"}, "/new/", "", []string{"new/a A"}},
		"a file into an existing folder":       {[]string{"a"}, "/etc", "", []string{"etc/a A"}},
		"a file over a file":                   {[]string{"a"}, "/srv/file", "", []string{"srv/file A"}},
		"relative":                             {[]string{"a"}, "sub/new", "/work", []string{"work/sub/new A"}},
		"the working directory":                {[]string{"a", "b"}, ".", "/work", []string{"work/a A", "work/b B"}},
		"the content of a folder":              {[]string{"dir"}, "/new", "", []string{"new/l -> x", "new/sub/y Y", "new/x X"}},
		"several":                              {[]string{"a", "dir"}, "/new", "", []string{"new/a A", "new/l -> x", "new/sub/y Y", "new/x X"}},
		"a pattern":                            {[]string{"[ab]"}, "/new/", "", []string{"new/a A", "new/b B"}},
		"a pattern in a folder":                {[]string{"d*/?"}, "/new/", "", []string{"new/l X", "new/x X"}},
		"through a link of the source":         {[]string{"link/sub"}, "/new", "", []string{"new/y Y"}},
		"a link of the source":                 {[]string{"to-a"}, "/new", "", []string{"new A"}},
		"through a link of the destination":    {[]string{"a"}, "/bin/", "", []string{"usr/bin/a A"}},
		"an absolute source":                   {[]string{"/a"}, "/new", "", []string{"new A"}},
		"up in the source":                     {[]string{"../../a"}, "/new", "", []string{"new A"}},
		"up in the destination":                {[]string{"a"}, "/../../new", "", []string{"new A"}},
		"everything":                           {[]string{"."}, "/all/", "", []string{"all/a A", "all/b B", "all/dir/l -> x", "all/dir/sub/y Y", "all/dir/x X", "all/link -> dir", "all/out -> /etc/passwd", "all/to-a -> a"}},
		"the same file twice: the last counts": {[]string{"a", "a"}, "/new/", "", []string{"new/a A"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := copied(t, copying{from: source{tree: folder(t, from...)}, paths: c.paths, to: c.to}, folder(t, lower...), c.workdir)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(old, c.want)
			for _, added := range c.want { // an added file replaces an old one
				file, _, _ := strings.Cut(added, " ")
				want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(w, file+" ") && w != added })
			}
			slices.Sort(want)
			got := listed(t, tree)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCopyRefuses(t *testing.T) {
	zipped := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "d/"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	archive := b.String()
	from := source{tree: folder(t, "a", "A", "dir/x", "X", "loop", "-> loop", "out", "-> ../../etc/passwd", "x.tar.gz", "no archive", "x", archive, "x.txt", zipped(archive), "x.gz", zipped("text"))}
	lower := folder(t, "file", "F", "dir/", "", "dir/x/", "")
	for name, c := range map[string]struct {
		copying
		kind fault.Kind
	}{
		"a missing file":          {copying{paths: []string{"none"}, to: "/"}, fault.NotFound},
		"a pattern without files": {copying{paths: []string{"none*"}, to: "/"}, fault.NotFound},
		"a folder over a file":    {copying{paths: []string{"dir"}, to: "/file"}, fault.Precondition},
		"a file over a folder":    {copying{paths: []string{"dir"}, to: "/dir"}, fault.Precondition},
		"a file as a folder":      {copying{paths: []string{"a"}, to: "/file/"}, fault.Precondition},
		"below a file":            {copying{paths: []string{"a"}, to: "/file/below"}, fault.Precondition},
		"a loop":                  {copying{paths: []string{"loop"}, to: "/"}, fault.Invalid},
		"out of the context":      {copying{paths: []string{"out"}, to: "/"}, fault.NotFound},
		"an unknown user":         {copying{paths: []string{"a"}, to: "/", chown: "nobody"}, fault.NotFound},
		"a mode":                  {copying{paths: []string{"a"}, to: "/", chmod: "u+x"}, fault.Unsupported},
		"an archive":              {copying{paths: []string{"x"}, to: "/", archives: true}, fault.Unsupported},
		"a compressed archive":    {copying{paths: []string{"x.txt"}, to: "/", archives: true}, fault.Unsupported},
		"the name of an archive":  {copying{paths: []string{"x.tar.gz"}, to: "/new", archives: true}, ""},
		"a compressed file":       {copying{paths: []string{"x.gz"}, to: "/new", archives: true}, ""},
	} {
		c.from = from
		if _, err := copied(t, c.copying, lower, "/"); fault.KindOf(err) != c.kind {
			t.Errorf("%s: kind %q, not %q: %v", name, fault.KindOf(err), c.kind, err)
		}
	}
}

// TestCopyHash checks what the hash of a copy covers.
func TestCopyHash(t *testing.T) {
	lower := folder(t, "etc/passwd", "app:x:5:6::/:/bin/sh\n", "etc/group", "app:x:7:\n")
	sum := func(c copying, entries ...string) string {
		t.Helper()
		c.from, c.paths, c.to = source{tree: folder(t, entries...)}, []string{"."}, "/new/"
		a, err := c.collect(t.Context(), lower, "/")
		if err != nil {
			t.Fatal(err)
		}
		h, err := a.hash(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := sum(copying{}, "a", "A", "d/b", "B")
	if again := sum(copying{}, "a", "A", "d/b", "B"); again != base {
		t.Error("the times of the files count")
	}
	for name, other := range map[string]string{
		"content": sum(copying{}, "a", "a", "d/b", "B"), "name": sum(copying{}, "c", "A", "d/b", "B"), "folder": sum(copying{}, "a", "A", "d/b", "B", "e/", ""),
		"link": sum(copying{}, "a", "-> A", "d/b", "B"), "mode": sum(copying{chmod: "755"}, "a", "A", "d/b", "B"), "owner": sum(copying{chown: "app"}, "a", "A", "d/b", "B"),
	} {
		if other == base {
			t.Errorf("the %s does not count", name)
		}
	}
}

// TestCopyOwners checks the owners and modes of folders that exist, and of folders that are new.
func TestCopyOwners(t *testing.T) {
	lower := folder(t, "old/sub/", "", "old/other", "O")
	from := folder(t, "sub/x", "X")
	for name, c := range map[string]struct {
		to   string
		want []string
	}{
		"existing": {"/old/", []string{". 0:0 lowered", "old 0:0 lowered", "old/sub 5:6 700", "old/sub/x 5:6 700"}},
		"new":      {"/new/deep/", []string{". 0:0 lowered", "new 5:6 755", "new/deep 5:6 700", "new/deep/sub 5:6 700", "new/deep/sub/x 5:6 700"}},
	} {
		copying := copying{from: source{tree: from}, paths: []string{"."}, to: c.to, chown: "5:6", chmod: "700"}
		a, err := copying.collect(t.Context(), lower, "/")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(a.entries)) {
			h := a.entries[name].header
			if a.entries[name].lowered {
				got = append(got, name+" 0:0 lowered")
				continue
			}
			got = append(got, fmt.Sprintf("%s %d:%d %o", name, h.Uid, h.Gid, h.Mode))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestExcludedFiles(t *testing.T) {
	from := source{tree: folder(t, "home.txt", "1", "home.md", "2", "home.go", "3", "dir/a.txt", "4", "dir/a.go", "5")}
	tree, err := copied(t, copying{from: from, paths: []string{"hom*", "dir"}, to: "/mydir/", excluded: []string{"*.txt", "*.md"}}, folder(t), "/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mydir/a.go 5", "mydir/home.go 3"}, listed(t, tree)); diff != "" {
		t.Error(diff)
	}
}

// TestCopyOfChangedFile checks that a layer is not stored under the hash of other content.
func TestCopyOfChangedFile(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "before")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := copying{from: source{tree: view.Folder(root)}, paths: []string{"a"}, to: "/"}
	a, err := c.collect(t.Context(), folder(t), "/")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := a.hash(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.writeSame(t.Context(), io.Discard, sum); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(dir, "a"), "behind")
	if err := a.writeSame(t.Context(), io.Discard, sum); fault.KindOf(err) != fault.Precondition {
		t.Errorf("the file has changed: %v", err)
	}
}

func TestOwner(t *testing.T) {
	tree := folder(t, "etc/passwd", "root:x:0:0::/:\nbad:x:5:none::/:\napp:x:5:6::/:\n", "etc/group", "root:x:0:\nstaff:x:50:\napp:x:7:\n")
	for text, want := range map[string]string{
		"app": "5:6", "app:staff": "5:50", "5": "5:5", "5:8": "5:8", "app:9": "5:9", ":staff": "0:50", "app:": "5:0",
		"none": "", "bad": "", "app:none": "", "-1": "", "4294967296": "",
	} {
		got, err := ownerOf(tree, text)
		if text := fmt.Sprintf("%d:%d", got.uid, got.gid); want == "" && err == nil || want != "" && (err != nil || text != want) {
			t.Errorf("%q: %s, %v, not %s", text, text, err, want)
		}
	}
	if _, err := ownerOf(folder(t), "app"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("without a database: %v", err)
	}
}

func TestIgnoredFiles(t *testing.T) {
	from := source{tree: folder(t, "a", "A", "b.log", "B", "node/x", "X", "node/keep/y", "Y", "docs/z", "Z")}
	for patterns, want := range map[string][]string{
		"":                       {"a A", "b.log B", "docs/z Z", "node/keep/y Y", "node/x X"},
		"*.log\nnode":            {"a A", "docs/z Z"},
		"node\n!node/keep":       {"a A", "b.log B", "docs/z Z", "node/keep/y Y"},
		"**\n!docs/z":            {"docs/z Z"},
		"# comment\n\n/a\nnode/": {"b.log B", "docs/z Z"},
	} {
		var err error
		if from.ignored, err = parseIgnore(patterns, ".dockerignore"); err != nil {
			t.Fatal(err)
		}
		tree, err := copied(t, copying{from: from, paths: []string{"."}, to: "/"}, folder(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, listed(t, tree)); diff != "" {
			t.Errorf("%q: %s", patterns, diff)
		}
	}
	from.ignored, _ = parseIgnore("b.log", ".dockerignore")
	if _, err := copied(t, copying{from: from, paths: []string{"b.log"}, to: "/"}, folder(t), "/"); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) == "" {
		t.Errorf("copy an ignored file: %v", err)
	}
	if _, err := parseIgnore("[", ".dockerignore"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a broken pattern: %v", err)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("a/b", "../..", true)
	f.Add("/l/../x", "/l", false)
	f.Fuzz(func(t *testing.T, name, target string, last bool) {
		if target == "" || strings.ContainsRune(target, 0) || len(target) > 200 || strings.ContainsRune(name, 0) || len(name) > 200 {
			t.Skip()
		}
		tree := folder(t, "a/b", "B", "l", "-> "+target)
		got, err := resolve(tree, name, last)
		if err == nil && (got == "" || strings.HasPrefix(got, "/") || strings.HasPrefix(got+"/", "../") || strings.Contains(got, "/../")) {
			t.Errorf("%q over %q: %q", name, target, got)
		}
	})
}
