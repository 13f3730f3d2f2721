package patch

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// operations returns the steps that turn the tree into the result of the patch.
func (c *check) operations(ctx context.Context) ([]Operation, error) {
	removed := map[string]Verb{}
	for p := range c.vacated {
		if c.now[p] == nil {
			removed[p] = Remove
		}
	}
	if err := c.emptied(ctx, removed); err != nil {
		return nil, err
	}
	var ops []Operation
	paths := slices.Sorted(maps.Keys(removed))
	slices.Reverse(paths) // Delete the content of a directory before the directory.
	for _, p := range paths {
		ops = append(ops, Operation{Do: removed[p], Path: p, Seen: c.seen[p]})
	}
	for _, p := range slices.Sorted(maps.Keys(c.now)) {
		seen := c.seen[p]
		if seen != nil && seen.Mode.IsDir() {
			if removed[p] != RemoveDirectory {
				return nil, conflict(p, "it is a directory that does not become empty")
			}
			seen = nil // An earlier operation removes the directory.
		}
		if o, changes := c.operation(p, c.now[p], seen); changes {
			ops = append(ops, o)
		}
	}
	return ops, nil
}

// operation returns the step that writes a node. If the tree already contains that node, it returns
// false.
func (c *check) operation(p string, n *node, seen *Entry) (Operation, bool) {
	o := Operation{Do: WriteFile, Path: p, Seen: seen, Source: n.source, Mode: n.mode &^ fs.ModeType, Content: n.data}
	same := seen != nil && seen.Mode.Type() == n.mode.Type() && !c.vacated[p]
	switch {
	case n.mode&fs.ModeSymlink != 0:
		o.Do, o.Link, o.Content, o.Mode = WriteLink, string(n.data), nil, 0
		return o, !same || seen.Link != o.Link
	case n.unread:
		o.Do = ChangeMode
		return o, seen.Mode != n.mode
	}
	return o, true
}

// emptied adds the directories that become empty to the map removed, beginning with the deepest.
func (c *check) emptied(ctx context.Context, removed map[string]Verb) error {
	used := map[string]bool{".": true} // directories that contain a path in c.now
	for p := range c.now {
		for dir := path.Dir(p); !used[dir]; dir = path.Dir(dir) {
			used[dir] = true
		}
	}
	for p := range c.now {
		if used[p] {
			return conflict(p, "it can't be both a file and a directory")
		}
	}
	levels := map[int]map[string]bool{}
	deepest := 0
	add := func(dir string) {
		depth := strings.Count(dir, "/")
		if levels[depth] == nil {
			levels[depth] = map[string]bool{}
		}
		levels[depth][dir] = true
		deepest = max(deepest, depth)
	}
	for p := range removed {
		add(path.Dir(p))
	}
	for p := range c.now {
		if e := c.seen[p]; e != nil && e.Mode.IsDir() {
			add(p) // If the directory becomes empty, the new file replaces it.
		}
	}
	for depth := deepest; depth >= 0; depth-- {
		for dir := range levels[depth] {
			if used[dir] {
				continue
			}
			names, err := c.tree.List(ctx, dir)
			if err != nil {
				return fault.Wrap(err, op, dir)
			}
			if slices.ContainsFunc(names, func(name string) bool { return removed[dir+"/"+name] == "" }) {
				continue
			}
			if _, err := c.stat(ctx, dir); err != nil {
				return err
			}
			removed[dir] = RemoveDirectory
			if up := path.Dir(dir); !used[up] {
				add(up)
			}
		}
	}
	return nil
}
