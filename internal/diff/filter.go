package diff

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/ignore"
)

// maxTests limits the number of comparisons of .gitignore rules with paths. So many comparisons
// take a few seconds.
const maxTests = 50_000_000

// ignoredIn returns an evaluator for the .gitignore files of a tree. An unreadable file has no
// rules.
func ignoredIn(ctx context.Context, tree Tree) *ignore.Tree {
	return &ignore.Tree{Tests: maxTests, Read: func(folder string) ([]byte, error) {
		f, err := tree.Open(ctx, path.Join(folder, ignore.File))
		if err != nil {
			return nil, ctx.Err()
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, ignore.MaxFile+1))
		if err != nil {
			return nil, ctx.Err()
		}
		return text, nil
	}}
}

// skip reports whether Compare must not compare a path, because the path is ignored or was not
// requested. It counts ignored paths that might have changed.
func (c *comparison) skip(ctx context.Context, before, after *Entry) (bool, error) {
	e := cmp.Or(after, before)
	if !c.paths.has(e.Path) {
		return true, nil
	}
	if c.options.IncludeIgnored {
		return false, nil
	}
	ignored := slices.Contains(strings.Split(e.Path, "/"), "__pycache__")
	if !ignored && before == nil {
		var err error
		if ignored, err = c.ignored.Ignored(e.Path, e.Mode.IsDir()); err != nil {
			return false, errors.Join(err, ctx.Err())
		}
	}
	if ignored && !sameMetadata(before, after) {
		c.result.Summary.Ignored++
	}
	return ignored, nil
}

// sameMetadata reports whether the two listings agree on a path. It does not read content.
func sameMetadata(before, after *Entry) bool {
	if before == nil || after == nil || before.Mode != after.Mode || before.Link != after.Link {
		return false
	}
	return !before.Mode.IsRegular() || before.Identity != "" && before.Identity == after.Identity
}

// paths contains the requested paths.
type paths struct {
	found map[string]bool // The value is true after the path was found. The map is nil if all paths were requested.
}

func newPaths(names []string) *paths {
	p := &paths{}
	for _, name := range names {
		if name == "" {
			return &paths{}
		}
		if p.found == nil {
			p.found = map[string]bool{}
		}
		p.found[name] = false
	}
	return p
}

// has reports whether a path, or a directory above it, was requested.
func (p *paths) has(name string) bool {
	if p.found == nil {
		return true
	}
	asked := false
	for at := name; at != "."; at = path.Dir(at) {
		if _, ok := p.found[at]; ok {
			p.found[at], asked = true, true
		}
	}
	return asked
}

// missing returns an error if a requested path is in neither tree.
func (p *paths) missing() error {
	for name, found := range p.found {
		if !found {
			return fault.Newf(fault.NotFound, "%q is in neither tree: %w", name, fs.ErrNotExist)
		}
	}
	return nil
}
