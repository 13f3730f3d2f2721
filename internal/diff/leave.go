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

// maxTests bounds how often a rule of a .gitignore is compared with a path: a few seconds' worth.
const maxTests = 50_000_000

// ignoredIn decides by the .gitignore files of a tree. One that can't be read has no rules.
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

// leaveOut tells whether a path is not compared: nobody asked for it, or it is ignored. It counts
// what would be a change.
func (c *comparison) leaveOut(ctx context.Context, before, after *Entry) (bool, error) {
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
	if ignored && !seemEqual(before, after) {
		c.result.Summary.Ignored++
	}
	return ignored, nil
}

// seemEqual tells whether listings say the same of a path, without a look at the content.
func seemEqual(before, after *Entry) bool {
	if before == nil || after == nil || before.Mode != after.Mode || before.Link != after.Link {
		return false
	}
	return !before.Mode.IsRegular() || before.Identity != "" && before.Identity == after.Identity
}

// paths are those that were asked for.
type paths struct {
	found map[string]bool // by path; nil: everything was asked for
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

// has tells whether a path was asked for, or is below one that was.
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

// missing is an error if a path that was asked for is in neither tree.
func (p *paths) missing() error {
	for name, found := range p.found {
		if !found {
			return fault.Newf(fault.NotFound, "%q is in neither of the two: %w", name, fs.ErrNotExist)
		}
	}
	return nil
}
