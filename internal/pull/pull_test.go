package pull_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/pull"
)

// tree returns a tree. Its arguments alternate between paths and contents. A path that ends with a
// slash is a directory. A content that begins with "->" is the target of a link. A content that
// begins with "+x" belongs to an executable file.
func tree(args ...string) difftest.Tree {
	t := difftest.Tree{}
	for i := 0; i < len(args); i += 2 {
		path, content := args[i], args[i+1]
		switch {
		case strings.HasSuffix(path, "/"):
			t.Put(strings.TrimSuffix(path, "/"), difftest.Node{Mode: fs.ModeDir | 0o755})
		case strings.HasPrefix(content, "->"):
			t.Put(path, difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: content[2:]})
		case strings.HasPrefix(content, "+x"):
			t.Put(path, difftest.Node{Mode: 0o755, Data: []byte(content)})
		default:
			t.Put(path, difftest.Node{Mode: 0o644, Data: []byte(content)})
		}
	}
	return t
}

// results returns the results of a plan by path, with the conflicts.
func results(plan *pull.Plan) map[string]string {
	all := map[string]string{}
	for _, c := range plan.Changes {
		all[c.Path] = strings.TrimSuffix(string(c.Result)+": "+c.Conflict, ": ")
	}
	return all
}

func TestPull(t *testing.T) {
	lines := func(first, last string) string { return first + "\n1\n2\n3\n4\n5\n" + last + "\n" }
	const both = "modified in the workspace, and modified on the host"
	for name, c := range map[string]struct {
		baseline, workspace, host difftest.Tree
		resolve                   pull.Resolution
		results                   map[string]string
		want                      difftest.Tree // nil: as before
	}{
		"only what the workspace has changed": {
			tree("same", "1", "edited", "1", "gone", "1", "dir/gone", "1", "script", "1", "link", "->a"),
			tree("same", "1", "edited", "2", "new/x", "2", "dir/", "", "script", "+x1", "link", "->b"),
			tree("same", "1", "edited", "1", "gone", "1", "dir/gone", "1", "script", "1", "link", "->a", ".env", "secret", "same2", "x"),
			pull.Refuse,
			map[string]string{"edited": "applied", "gone": "applied", "dir/gone": "applied", "new": "applied", "new/x": "applied", "script": "applied", "link": "applied"},
			tree("same", "1", "edited", "2", "new/x", "2", "dir/", "", "script", "+x1", "link", "->b", ".env", "secret", "same2", "x"),
		},
		"the host has it already": {
			tree("a", "1", "b", "1"), tree("a", "2", "c", "2"), tree("a", "2", "c", "2"), pull.Refuse,
			map[string]string{"a": "unchanged", "b": "unchanged", "c": "unchanged"}, nil,
		},
		"a file of the host in a deleted directory": {
			tree("dir/a", "1"), tree(), tree("dir/a", "1", "dir/own", "x"), pull.Refuse,
			map[string]string{"dir": "kept", "dir/a": "applied"}, tree("dir/own", "x"),
		},
		"conflicts": {
			tree("a", "1", "b", "1", "c", "1"), tree("a", "2", "b", "2", "n", "2"), tree("a", "3", "c", "3", "n", "3"), pull.Refuse,
			map[string]string{
				"a": "conflicted: " + both, "b": "conflicted: modified in the workspace, deleted on the host",
				"c": "conflicted: deleted in the workspace, and modified on the host", "n": "conflicted: added in the workspace, and another file was added on the host",
			}, nil,
		},
		"theirs": {
			tree("a", "1", "b", "1", "c", "1"), tree("a", "2", "b", "2"), tree("a", "3", "c", "3", "own", "x"), pull.Theirs,
			map[string]string{"a": "applied: " + both, "b": "applied: modified in the workspace, deleted on the host", "c": "applied: deleted in the workspace, and modified on the host"},
			tree("a", "2", "b", "2", "own", "x"),
		},
		"ours": {
			tree("a", "1", "b", "1"), tree("a", "2", "b", "2"), tree("a", "3", "b", "1"), pull.Ours,
			map[string]string{"a": "kept: " + both, "b": "applied"}, tree("a", "3", "b", "2"),
		},
		"a merge": {
			tree("a", lines("old", "old")), tree("a", lines("workspace", "old")), tree("a", lines("old", "host")), pull.Merge,
			map[string]string{"a": "merged: " + both}, tree("a", lines("workspace", "host")),
		},
		"a merge with markers": {
			tree("a", "1\n"), tree("a", "2\n"), tree("a", "3\n"), pull.Merge,
			map[string]string{"a": "marked: " + both}, tree("a", "<<<<<<< host\n3\n=======\n2\n>>>>>>> workspace\n"),
		},
		"a merge of binary files": {
			tree("a", "\x001"), tree("a", "\x002"), tree("a", "\x003"), pull.Merge, map[string]string{"a": "conflicted: " + both}, nil,
		},
		"a link on the way": {
			tree("dir/a", "1"), tree("dir/a", "2"), tree("dir", "->elsewhere", "elsewhere/a", "1"), pull.Theirs,
			map[string]string{"dir/a": `conflicted: "dir" is not a directory on the host`}, nil,
		},
		"a directory becomes a file": {
			tree("x/a", "1", "x/b/c", "1"), tree("x", "2"), tree("x/a", "1", "x/b/c", "1", "y", "3"), pull.Refuse,
			map[string]string{"x": "applied", "x/a": "applied", "x/b": "applied", "x/b/c": "applied"}, tree("x", "2", "y", "3"),
		},
		"a file becomes a directory": {
			tree("x", "1"), tree("x/a", "2"), tree("x", "1"), pull.Refuse, map[string]string{"x": "applied", "x/a": "applied"}, tree("x/a", "2"),
		},
		"a directory with files of the host becomes a file": {
			tree("x/a", "1"), tree("x", "2"), tree("x/a", "1", "x/own", "3"), pull.Theirs,
			map[string]string{"x": "conflicted: the directory has other files on the host", "x/a": "applied"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := c.host.Write(folder); err != nil {
				t.Fatal(err)
			}
			plan := pulled(t, c.baseline, c.workspace, folder, c.resolve)
			if got := results(plan); !maps.Equal(got, c.results) {
				t.Errorf("got %q, want %q", got, c.results)
			}
			want := c.want
			if want == nil {
				want = c.host
			}
			got, err := difftest.Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			if said := difftest.Unequal(got.Git(), want.Git()); said != "" {
				t.Error(said)
			}
		})
	}
}

// TestPullDuringHostChanges checks that a pull does not overwrite a file that the host changes
// between the plan and the change.
func TestPullDuringHostChanges(t *testing.T) {
	folder := t.TempDir()
	baseline, workspace := tree("a", "1", "b", "1"), tree("a", "2", "b", "2")
	if err := baseline.Write(folder); err != nil {
		t.Fatal(err)
	}
	changed, err := diff.Compare(t.Context(), baseline, workspace, nil, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	plan, err := pull.New(t.Context(), changed.Entries, pull.Sides{Baseline: baseline, Workspace: workspace, Folder: host}, pull.Refuse)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "b"), []byte("3"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := applyPlan(t, plan, folder); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("got %v", err)
	}
	got, err := difftest.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if said := difftest.Unequal(got.Git(), tree("a", "1", "b", "3").Git()); said != "" {
		t.Error(said)
	}
}

// TestSpecialFiles checks that special files are neither copied nor replaced, and that they prevent
// a pull only if they replace a file of the host.
func TestSpecialFiles(t *testing.T) {
	const blocked = "it is a device, a pipe or a socket"
	const other = "added in the workspace, and a device, a pipe or a socket was added on the host"
	pipe := difftest.Node{Mode: fs.ModeNamedPipe | 0o600}
	file := difftest.Node{Mode: 0o644, Data: []byte("1")}
	none := difftest.Node{}
	for name, c := range map[string]struct {
		baseline, workspace, host difftest.Node // none: no entry
		want, ours, theirs        string
	}{
		"added":              {none, pipe, none, "kept", "kept", "kept"},
		"deleted":            {pipe, none, none, "unchanged", "unchanged", "unchanged"},
		"deleted, on host":   {pipe, none, pipe, "kept", "kept", "kept"},
		"deleted, and file":  {pipe, none, file, "kept", "kept", "kept"},
		"modified":           {pipe, difftest.Node{Mode: fs.ModeNamedPipe | 0o644}, pipe, "kept", "kept", "kept"},
		"was a file":         {file, pipe, file, "conflicted: " + blocked, "kept: " + blocked, "conflicted: " + blocked},
		"was a file, gone":   {file, pipe, none, "kept", "kept", "kept"},
		"was a file in both": {file, pipe, pipe, "unchanged", "unchanged", "unchanged"},
		"is a file":          {pipe, file, none, "applied", "applied", "applied"},
		"is a file in both":  {pipe, file, file, "unchanged", "unchanged", "unchanged"},
		"is a file, on host": {pipe, file, pipe, "conflicted: " + other, "kept: " + other, "conflicted: " + other},
		"a pipe of the host": {none, file, pipe, "conflicted: " + other, "kept: " + other, "conflicted: " + other},
	} {
		t.Run(name, func(t *testing.T) {
			for resolve, want := range map[pull.Resolution]string{pull.Refuse: c.want, pull.Merge: c.want, pull.Ours: c.ours, pull.Theirs: c.theirs} {
				baseline, workspace, host := tree("x", "1"), tree("x", "2"), tree("x", "1")
				folder := t.TempDir()
				if c.baseline.Mode != 0 {
					baseline.Put("a", c.baseline)
				}
				if c.workspace.Mode != 0 {
					workspace.Put("a", c.workspace)
				}
				if err := host.Write(folder); err != nil {
					t.Fatal(err)
				}
				if err := makeNode(filepath.Join(folder, "a"), c.host); err != nil {
					t.Fatal(err)
				}
				got := results(pulled(t, baseline, workspace, folder, resolve))
				if !maps.Equal(got, map[string]string{"a": want, "x": "applied"}) {
					t.Errorf("%q: got %q, want %q", resolve, got, want)
				}
			}
		})
	}
}

// makeNode makes a file or a pipe.
func makeNode(path string, n difftest.Node) error {
	switch {
	case n.Mode == 0:
		return nil
	case n.Mode.IsRegular():
		return os.WriteFile(path, n.Data, n.Mode)
	}
	return unix.Mkfifo(path, uint32(n.Mode.Perm()))
}
