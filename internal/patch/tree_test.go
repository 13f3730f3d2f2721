package patch_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/diff/difftest"
	"github.com/pyro-mcp/pyro/internal/patch"
)

// tree is a patch.Tree in memory. It fails the test if Check makes a call that is not allowed.
type tree struct {
	t     testing.TB
	nodes difftest.Tree
}

func (t tree) entry(p string) (patch.Entry, bool) {
	n, ok := t.nodes[p]
	return patch.Entry{Mode: n.Mode, Size: int64(len(n.Data)), Link: n.Link, Identity: fmt.Sprintf("%p", n.Data)}, ok
}

func (t tree) Stat(_ context.Context, p string) (patch.Entry, error) {
	if !fs.ValidPath(strings.ToValidUTF8(p, "?")) || p == "." {
		t.t.Errorf("stat of %q", p)
	}
	e, ok := t.entry(p)
	if !ok {
		return e, fs.ErrNotExist
	}
	return e, nil
}

func (t tree) Read(_ context.Context, p string) ([]byte, error) {
	n := t.nodes[p]
	if !n.Mode.IsRegular() || len(n.Data) > patch.MaxFile {
		t.t.Errorf("read of %q", p)
	}
	return bytes.Clone(n.Data), nil
}

func (t tree) List(_ context.Context, dir string) (names []string, err error) {
	if !t.nodes[dir].Mode.IsDir() {
		t.t.Errorf("list of %q", dir)
	}
	for p := range t.nodes {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

// commit executes a plan. It fails the test if the tree is not in the state that the plan states.
func commit(t testing.TB, plan *patch.Plan, before difftest.Tree) difftest.Tree {
	t.Helper()
	was := tree{t, before}
	now := maps.Clone(before)
	for _, o := range plan.Operations {
		e, ok := tree{t, now}.entry(o.Path)
		if ok != (o.Seen != nil) || ok && e != *o.Seen {
			t.Errorf("%s %q: saw %+v, not %+v", o.Do, o.Path, e, o.Seen)
		}
		if o.Source != nil {
			if e, _ := was.entry(o.Source.Path); e != o.Source.Seen {
				t.Errorf("%q has another source than the file at %q", o.Path, o.Source.Path)
			}
		}
		switch o.Do {
		case patch.Remove:
			if now[o.Path].Mode.IsDir() {
				t.Errorf("%q is a directory", o.Path)
			}
			delete(now, o.Path)
		case patch.RemoveDirectory:
			if names, _ := (tree{t, now}).List(context.Background(), o.Path); len(names) > 0 {
				t.Errorf("%q is not empty: %q", o.Path, names)
			}
			delete(now, o.Path)
		case patch.WriteFile:
			now.Put(o.Path, difftest.Node{Mode: o.Mode, Data: o.Content})
		case patch.WriteLink:
			now.Put(o.Path, difftest.Node{Mode: fs.ModeSymlink | 0o777, Link: o.Link})
		case patch.ChangeMode:
			n := now[o.Path]
			n.Mode = o.Mode
			now[o.Path] = n
		default:
			t.Errorf("%q: nothing can %q", o.Path, o.Do)
		}
	}
	for p := range now {
		if dir := path.Dir(p); dir != "." && !now[dir].Mode.IsDir() {
			t.Errorf("%q is in %q, which is not a directory", p, dir)
		}
	}
	return now
}

// check checks a patch, executes its plan and returns the resulting tree.
func check(t testing.TB, text string, before difftest.Tree) (difftest.Tree, *patch.Plan, error) {
	t.Helper()
	plan, err := patch.Check(context.Background(), []byte(text), tree{t, before})
	if err != nil {
		return nil, nil, err
	}
	return commit(t, plan, before), plan, nil
}
