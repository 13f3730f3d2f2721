// Package difftest provides file trees for tests. It can create random trees, change trees
// randomly, write them to disk, read them back, and reduce them to git's model.
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

// Node is a file, directory or symbolic link. Data is the content of a file.
type Node struct {
	Mode fs.FileMode
	Data []byte
	Link string
}

// Tree is a tree in memory. Its keys are paths, and every directory has an entry. It implements
// [diff.Tree].
type Tree map[string]Node

var _ diff.Tree = Tree{}

// List yields the entries in depth-first order.
func (t Tree) List(context.Context) iter.Seq2[diff.Entry, error] {
	// No name contains NUL. If slashes are replaced with NUL, byte order is depth-first order.
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

// Open opens the content of a file.
func (t Tree) Open(_ context.Context, path string) (io.ReadCloser, error) {
	n, ok := t[path]
	if !ok || !n.Mode.IsRegular() {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(n.Data)), nil
}

// Put adds a node, and creates missing parent directories.
func (t Tree) Put(p string, n Node) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if _, ok := t[dir]; !ok {
			t[dir] = Node{Mode: fs.ModeDir | 0o755}
		}
	}
	t[p] = n
}

// Remove removes a node and everything below it.
func (t Tree) Remove(p string) {
	maps.DeleteFunc(t, func(q string, _ Node) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// Git returns the part of the tree that git can represent: files with mode 0644 or 0755, symbolic
// links, and their directories.
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

// Write writes the tree to an existing directory.
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

// Read reads a directory and returns its content as a tree.
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

// Unequal describes how two trees differ. If they are equal, it returns "". It does not use package
// diff, because it is a test helper for that package.
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
