package archive

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// applied applies operations to a directory, like package hostfolder.
func applied(ctx context.Context, directory string, operations io.Reader) (volume.Counts, error) {
	staging, err := os.MkdirTemp(filepath.Dir(directory), "staging")
	if err != nil {
		return volume.Counts{}, err
	}
	defer os.RemoveAll(staging)
	root, err := os.Open(staging)
	if err != nil {
		return volume.Counts{}, err
	}
	files, err := os.Open(directory)
	if err != nil {
		return volume.Counts{}, err
	}
	v, _, err := volume.OpenFolder(root, files, volume.LocalFS)
	if err != nil {
		return volume.Counts{}, err
	}
	defer v.Close(ctx)
	return v.Change(ctx, operations)
}

// userFolder creates a folder with files of a user, and returns it.
func userFolder(t *testing.T) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "project")
	for _, name := range []string{".env", "node_modules/x/index.js", "hostfile", ".git/config", "src/old.go", "src/same.go", "empty/.keep"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(target, name)), 0o700))
		put(t, filepath.Join(target, name), "user's "+name, 0o600)
	}
	check(t, os.Symlink("hostfile", filepath.Join(target, "link")))
	check(t, unix.Mkfifo(filepath.Join(target, "pipe"), 0o600))
	return target
}

// listed returns the paths in a folder, except the folder itself.
func listed(t *testing.T, folder string) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if path != folder {
			all = append(all, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	}))
	return all
}

func TestUpdate(t *testing.T) {
	target := userFolder(t)
	before := listed(t, target)
	stream := archiveOf(t, dir("top"), dir("top/src"), file("top/src/same.go"), file("top/src/new.go"), dir("top/sub"), file("top/sub/x"), hard("top/again", "top/sub/x"))
	done, err := Update(t.Context(), bytes.NewReader(stream), target, UpdateOptions{Apply: applied})
	check(t, err)
	if done.Created != 4 || done.Replaced < 1 || done.Files != 3 || done.HardLinks != 1 || len(done.Deleted) > 0 {
		t.Errorf("%+v", done)
	}
	want := append(before, "src/new.go", "sub", "sub/x", "again")
	slices.Sort(want)
	if got := listed(t, target); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if info, err := os.Stat(filepath.Join(target, "src")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of an existing folder: %v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(target, "src/same.go")); err != nil || strings.HasPrefix(string(text), "user's") {
		t.Errorf("not replaced: %q, %v", text, err)
	}
}

// TestUpdateDeletes checks that Delete removes no protected entries.
func TestUpdateDeletes(t *testing.T) {
	target := userFolder(t)
	o := UpdateOptions{Delete: true, DryRun: true, Apply: applied, Protected: func(_ context.Context, path string, directory bool) bool {
		return path == ".env" || path == "node_modules" && directory
	}}
	stream := archiveOf(t, dir("."), dir("src"), file("src/same.go"))
	want := []string{"empty/.keep", "empty", "hostfile", "link", "src/old.go"}
	before := listed(t, target)
	for _, dry := range []bool{true, false} {
		o.DryRun = dry
		done, err := Update(t.Context(), bytes.NewReader(stream), target, o)
		check(t, err)
		if !slices.Equal(done.Deleted, want) {
			t.Errorf("dry=%t: deleted %q, want %q", dry, done.Deleted, want)
		}
		left := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !dry && slices.Contains(want, name) })
		if got := listed(t, target); !slices.Equal(got, left) {
			t.Errorf("dry=%t: left %q, want %q", dry, got, left)
		}
	}
}

// TestUpdateRefuses checks that an update that does not fit changes nothing.
func TestUpdateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		entries []entry
		kind    fault.Kind
		says    string
	}{
		"a folder in place of a file": {[]entry{dir("."), file("new"), dir("hostfile")}, fault.Precondition, `"hostfile"`},
		"a file in place of a folder": {[]entry{dir("."), file("new"), file("src")}, fault.Precondition, `"src"`},
		"below a file":                {[]entry{dir("."), file("new"), file("hostfile/x")}, fault.Precondition, `"hostfile/x"`},
		"through a link":              {[]entry{dir("."), file("new"), file("link/x")}, fault.Precondition, `"link/x"`},
		"a folder in place of a link": {[]entry{dir("."), file("new"), dir("link")}, fault.Precondition, `"link"`},
		"a name that climbs":          {[]entry{dir("."), file("new"), file("../x")}, fault.Invalid, "contains .."},
		"a hard link out":             {[]entry{dir("top"), file("top/new"), hard("top/h", "other/x")}, fault.Invalid, "not below"},
		"another tree":                {[]entry{dir("top"), file("top/new"), file("other/x")}, fault.Invalid, "not below"},
		"a file":                      {[]entry{file("x")}, fault.Invalid, "only a directory"},
		"twice":                       {[]entry{dir("."), file("new"), file("new")}, fault.Invalid, "duplicate"},
		"nothing":                     {nil, fault.Invalid, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			target := userFolder(t)
			before := listed(t, target)
			_, err := Update(t.Context(), bytes.NewReader(archiveOf(t, c.entries...)), target, UpdateOptions{Apply: applied})
			if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", fault.KindOf(err), err)
			}
			if got := listed(t, target); !slices.Equal(got, before) {
				t.Errorf("it has changed: %q", got)
			}
		})
	}
}

func TestUpdateOmits(t *testing.T) {
	target := userFolder(t)
	omit := func(path string) bool { return path == ".git" || strings.HasPrefix(path, ".git/") }
	stream := archiveOf(t, dir("top"), dir("top/.git"), file("top/.git/config"), dir("top/.git/hooks"), file("top/.git/hooks/x"), file("top/new"))
	done, err := Update(t.Context(), bytes.NewReader(stream), target, UpdateOptions{Apply: applied, Omit: omit})
	check(t, err)
	if done.Omitted != 4 || done.Files != 1 || done.Created != 1 {
		t.Errorf("%+v", done)
	}
	if text, err := os.ReadFile(filepath.Join(target, ".git/config")); string(text) != "user's .git/config" {
		t.Errorf("%q, %v", text, err)
	}
	stream = archiveOf(t, dir("top"), file("top/.git/config"), hard("top/again", "top/.git/config"))
	if _, err := Update(t.Context(), bytes.NewReader(stream), target, UpdateOptions{Apply: applied, Omit: omit}); !strings.Contains(err.Error(), "left out") {
		t.Errorf("a hard link to an omitted file: %v", err)
	}
}

// TestUpdateOmitsFirstName writes a file although one of its names is left out. git clone --bare
// makes such files.
func TestUpdateOmitsFirstName(t *testing.T) {
	from := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(from, ".git/objects"), 0o755))
	put(t, filepath.Join(from, ".git/objects/a"), "object", 0o644)
	for _, name := range []string{".git/objects/b", "mirror", "second"} {
		check(t, os.Link(filepath.Join(from, ".git/objects/a"), filepath.Join(from, name)))
	}
	top, err := os.Open(from)
	check(t, err)
	defer top.Close()
	var stream bytes.Buffer
	_, err = volume.WriteTree(&stream, top, "")
	check(t, err)
	target := userFolder(t)
	omit := func(path string) bool { return path == ".git" || strings.HasPrefix(path, ".git/") }
	done, err := Update(t.Context(), &stream, target, UpdateOptions{Apply: applied, Omit: omit})
	check(t, err)
	if done.Omitted != 4 || done.Files != 1 || done.HardLinks != 1 {
		t.Errorf("%+v", done)
	}
	for _, name := range []string{"mirror", "second"} {
		if text, err := os.ReadFile(filepath.Join(target, name)); string(text) != "object" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
