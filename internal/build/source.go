package build

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// source is a tree that COPY copies from: the build context, a stage or an image.
type source struct {
	tree    view.Tree
	ignored *patternmatcher.PatternMatcher // paths that are treated as missing; can be nil
	owned   bool                           // keep the owners of files. Otherwise they belong to root.
}

// maxLinks is the number of symbolic links that are followed for one path, as in Linux.
const maxLinks = 40

// openContext opens a folder of the host as the build context. name is the path of the Dockerfile,
// which can have an ignore file of its own. The caller must close the root.
func openContext(folder, name string) (*source, *os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, fault.Wrap(err, "open build context", folder)
	}
	s := &source{tree: view.Folder(root)}
	if s.ignored, err = readIgnore(root, name); err != nil {
		root.Close()
		return nil, nil, err
	}
	return s, root, nil
}

// maxIgnore is the maximum size of an ignore file in bytes.
const maxIgnore = 1 << 20

// readIgnore reads NAME.dockerignore for the Dockerfile, or else .dockerignore in the context.
func readIgnore(root *os.Root, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	file, err := os.Open(dockerfile + ".dockerignore")
	if dockerfile == "" || errors.Is(err, fs.ErrNotExist) {
		file, err = root.Open(".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxIgnore+1))
	if err == nil && len(text) > maxIgnore {
		err = fault.Newf(fault.Invalid, "it has more than %d KiB", maxIgnore>>10)
	}
	if err != nil {
		return nil, fault.Wrap(err, "read", file.Name())
	}
	return parseIgnore(string(text), file.Name())
}

func parseIgnore(text, name string) (*patternmatcher.PatternMatcher, error) {
	patterns, err := ignorefile.ReadAll(strings.NewReader(text))
	if err == nil {
		var m *patternmatcher.PatternMatcher
		if m, err = patternmatcher.New(patterns); err == nil {
			return m, nil
		}
	}
	return nil, fault.New(fault.Invalid, "read", name, "%w", err)
}

// hidden reports whether the context ignores a path.
func (s *source) hidden(name string) (bool, error) {
	if s.ignored == nil || name == "." {
		return false, nil
	}
	return s.ignored.MatchesOrParentMatches(name)
}

// find returns the paths that a source of COPY names. A pattern can match several paths.
func (s *source) find(pattern string) ([]string, error) {
	clean := strings.Trim(path.Clean("/"+pattern), "/")
	if clean == "" {
		return []string{"."}, nil
	}
	if !strings.ContainsAny(clean, `*?[\`) {
		return []string{clean}, nil
	}
	found := []string{"."}
	for part := range strings.SplitSeq(clean, "/") {
		var next []string
		for _, dir := range found {
			names, err := s.match(dir, part)
			if err != nil {
				return nil, err
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, nil
}

// match returns the entries of a folder that match a pattern. If dir is not a folder, nothing
// matches.
func (s *source) match(dir, pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{path.Join(dir, pattern)}, nil
	}
	at, err := resolve(s.tree, dir, true)
	if err != nil {
		return nil, nil
	}
	entries, err := s.tree.ReadDir(at)
	if err != nil {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		ok, err := path.Match(pattern, e.Name())
		if err != nil {
			return nil, fault.Newf(fault.Invalid, "%q is not a pattern: %w", pattern, err)
		}
		name := path.Join(dir, e.Name())
		if hidden, err := s.hidden(name); err != nil {
			return nil, err
		} else if ok && !hidden {
			names = append(names, name)
		}
	}
	return names, nil
}

// resolve returns the path of a file without symbolic links. Links never lead out of the tree. If
// last is false, a link at the end of the path is not followed. Missing parts at the end of the
// path remain as they are. A part that leads through a file is an error.
func resolve(tree view.Tree, name string, last bool) (string, error) {
	done, links := "", 0
	rest := slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool { return part == "" || part == "." })
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if done = path.Dir(done); done == "." {
				done = ""
			}
			continue
		}
		at := path.Join(done, part)
		info, err := tree.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			done = at
			continue
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return "", fault.Newf(fault.Precondition, "%s leads through a file", name)
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 || len(rest) == 0 && !last {
			done = at
			continue
		}
		if links++; links > maxLinks {
			return "", fault.Newf(fault.Invalid, "%q has too many symbolic links", name)
		}
		target, err := tree.ReadLink(at)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = ""
		}
		parts := slices.DeleteFunc(strings.Split(target, "/"), func(part string) bool { return part == "" || part == "." })
		rest = append(parts, rest...)
	}
	if done == "" {
		return ".", nil
	}
	return done, nil
}

// walk calls the function visit for a path and everything below it. Relative paths begin at the
// given path. Ignored entries are left out.
func (s *source) walk(ctx context.Context, top string, visit func(name, relative string, info fs.FileInfo) error) error {
	info, err := s.tree.Lstat(top)
	if err != nil {
		return err
	}
	return s.walkFrom(ctx, top, ".", info, visit)
}

func (s *source) walkFrom(ctx context.Context, name, relative string, info fs.FileInfo, visit func(name, relative string, info fs.FileInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hidden, err := s.hidden(name)
	if err != nil {
		return err
	}
	// An ignored folder can contain files that a later pattern includes again.
	if hidden && !(info.IsDir() && s.ignored.Exclusions()) {
		return nil
	}
	if !hidden {
		if err := visit(name, relative, info); err != nil {
			return err
		}
	}
	if !info.IsDir() {
		return nil
	}
	entries, err := s.tree.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := s.walkFrom(ctx, path.Join(name, e.Name()), path.Join(relative, e.Name()), info, visit); err != nil {
			return err
		}
	}
	return nil
}
