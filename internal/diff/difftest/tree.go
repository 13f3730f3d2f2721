// Package difftest has trees for tests: made at random from a seed, changed at random, written to a folder and read back, and as git sees them.
package difftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/diff"
)

// Node is a file, directory or link. Data is the content of a file.
type Node struct {
	Mode fs.FileMode
	Data []byte
	Link string
}

// Tree is a tree in memory, by path. Every directory is an entry. It is a [diff.Tree].
type Tree map[string]Node

var _ diff.Tree = Tree{}

// List gives the entries depth first.
func (t Tree) List(context.Context) iter.Seq2[diff.Entry, error] {
	// A slash as the lowest byte makes the order of bytes the one that is asked for; no name has a zero byte.
	paths := slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	return func(yield func(diff.Entry, error) bool) {
		for _, p := range paths {
			n := t[p]
			if !yield(diff.Entry{Path: p, Mode: n.Mode, Size: int64(len(n.Data)), Link: n.Link}, nil) {
				return
			}
		}
	}
}

// Open opens a file's content.
func (t Tree) Open(_ context.Context, path string) (io.ReadCloser, error) {
	n, ok := t[path]
	if !ok || !n.Mode.IsRegular() {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(n.Data)), nil
}

// Put adds a node, and the directories above it.
func (t Tree) Put(p string, n Node) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if _, ok := t[dir]; !ok {
			t[dir] = Node{Mode: fs.ModeDir | 0o755}
		}
	}
	t[p] = n
}

// Remove removes a node with all that is below it.
func (t Tree) Remove(p string) {
	maps.DeleteFunc(t, func(q string, _ Node) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// Git is what git knows of a tree: files, with 0644 or 0755, and links. Of directories there are those that lead to them.
func (t Tree) Git() Tree {
	git := Tree{}
	for p, n := range t {
		switch {
		case n.Mode&fs.ModeSymlink != 0:
			git.Put(p, Node{Mode: fs.ModeSymlink | 0o777, Link: n.Link})
		case n.Mode.IsRegular() && n.Mode&0o100 != 0:
			git.Put(p, Node{Mode: 0o755, Data: n.Data})
		case n.Mode.IsRegular():
			git.Put(p, Node{Mode: 0o644, Data: n.Data})
		}
	}
	return git
}

// Write writes files, directories and links to a folder, which must exist.
func (t Tree) Write(root string) error {
	for e := range t.List(context.Background()) {
		n, p := t[e.Path], filepath.Join(root, e.Path)
		var err error
		switch {
		case n.Mode.IsDir():
			err = os.Mkdir(p, 0o700)
		case n.Mode&fs.ModeSymlink != 0:
			err = os.Symlink(n.Link, p)
		default:
			err = errors.Join(os.WriteFile(p, n.Data, 0o600), os.Chmod(p, n.Mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read reads a folder.
func Read(root string) (Tree, error) {
	t := Tree{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n := Node{Mode: info.Mode()}
		switch {
		case n.Mode&fs.ModeSymlink != 0:
			n.Link, err = os.Readlink(p)
		case n.Mode.IsRegular():
			n.Data, err = os.ReadFile(p)
		}
		t[strings.TrimPrefix(p, root+"/")] = n
		return err
	})
	return t, err
}

// Unequal says how two trees differ, "" where they don't. It does not use package diff, which it is there to test.
func Unequal(got, want Tree) string {
	var b strings.Builder
	paths := maps.Clone(got)
	maps.Copy(paths, want)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		g, inGot := got[p]
		w, inWant := want[p]
		if inGot != inWant || g.Mode != w.Mode || g.Link != w.Link || !bytes.Equal(g.Data, w.Data) {
			fmt.Fprintf(&b, "%q: got %v %.200q %q, want %v %.200q %q\n", p, g.Mode, g.Data, g.Link, w.Mode, w.Data, w.Link)
		}
	}
	return b.String()
}
