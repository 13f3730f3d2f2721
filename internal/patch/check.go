package patch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// check is the state of a call of Check. It contains the changes of the patch so far.
type check struct {
	tree    Tree
	seen    map[string]*Entry // Results of Stat. An element is nil if there is no entry.
	vacated map[string]bool   // Paths that the patch deletes or renames.
	now     map[string]*node  // Files and links that the patch has written so far.
	held    int               // Total size of the new content so far, in bytes.
	steps   int               // Number of comparisons left, see maxSteps.
}

// node is a file or symbolic link that the patch writes.
type node struct {
	mode   fs.FileMode // including the type
	data   []byte      // content of a file, or target of a symbolic link
	unread bool        // data was not read, because the patch does not change the content
	source *Source
}

// section checks one section and records the result.
func (c *check) section(ctx context.Context, s *section) (File, error) {
	f := File{Path: s.path, OldPath: s.from, Status: s.status}
	old, err := c.old(ctx, s)
	if err != nil {
		return f, err
	}
	made, moved, err := c.make(s, old)
	if err != nil {
		return f, err
	}
	f.HunksMoved = moved
	for _, k := range s.hunks {
		f.LinesAdded += k.added
		f.LinesRemoved += k.removed
	}
	if s.again && (s.status == Deleted || s.status == Renamed) {
		c.drop(s.oldPath())
	}
	if s.status == Deleted {
		if len(made.data) > 0 {
			return f, conflict(s.path, "it has more content than the patch deletes")
		}
		return f, nil
	}
	if s.status != Modified {
		if err := c.arrives(ctx, s.path); err != nil {
			return f, err
		}
	}
	c.drop(s.path)
	if c.held += len(made.data); c.held > MaxContent {
		return f, fault.New(fault.Exhausted, op, "", "the patch creates more than %d MiB of content", MaxContent>>20)
	}
	c.now[s.path] = made
	return f, nil
}

// drop removes the recorded result for a path.
func (c *check) drop(p string) {
	if n := c.now[p]; n != nil {
		c.held -= len(n.data)
		delete(c.now, p)
	}
}

// oldPath returns the path of the section's old file.
func (s *section) oldPath() string {
	if s.from != "" {
		return s.from
	}
	return s.path
}

// old returns the file or link that a section changes, or nil if the section creates one.
func (c *check) old(ctx context.Context, s *section) (*node, error) {
	from := s.oldPath()
	if s.status == Added {
		return nil, nil
	}
	if s.again {
		made := *c.now[from]
		if err := s.fits(from, made.mode); err != nil {
			return nil, err
		}
		return &made, c.content(ctx, from, &made)
	}
	e, err := c.stat(ctx, from)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, c.missing(from)
	}
	if err := s.fits(from, e.Mode); err != nil {
		return nil, err
	}
	if e.Mode&fs.ModeSymlink != 0 {
		return &node{mode: e.Mode, data: []byte(e.Link), source: c.source(s, *e)}, nil
	}
	n := &node{mode: e.Mode, unread: true, source: c.source(s, *e)}
	if s.status == Modified && len(s.hunks) == 0 && s.binary == nil {
		return n, nil // Only the mode changes.
	}
	return n, c.content(ctx, from, n)
}

// fits checks that the type of the file in the tree is the type that the patch expects. It does
// nothing if the patch does not state a type.
func (s *section) fits(p string, m fs.FileMode) error {
	link := m&fs.ModeSymlink != 0
	switch {
	case !link && !m.IsRegular():
		return conflict(p, "it is neither a file nor a symbolic link")
	case s.oldMode == 0 || s.oldMode.link() == link:
		return nil
	case link:
		return conflict(p, "it is a symbolic link, and the patch is for a file")
	}
	return conflict(p, "it is a file, and the patch is for a symbolic link")
}

// missing returns the conflict for a path that does not exist.
func (c *check) missing(p string) error {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if e := c.seen[dir]; e != nil && e.Mode&fs.ModeSymlink != 0 {
			return beyond(p, dir)
		}
	}
	return conflict(p, "it does not exist")
}

func beyond(p, link string) error {
	return conflict(p, "%q above it is a symbolic link, which is not followed", link)
}

func (c *check) source(s *section, e Entry) *Source {
	if s.from == "" {
		return nil
	}
	return &Source{Path: s.from, Seen: e}
}

// content reads the content of a node, unless it is already in memory.
func (c *check) content(ctx context.Context, from string, n *node) error {
	if !n.unread {
		return nil
	}
	tooLarge := fault.New(fault.Exhausted, op, from, "it is larger than %d MiB, the limit for files that a patch changes", MaxFile>>20)
	if c.seen[from].Size > MaxFile {
		return tooLarge
	}
	data, err := c.tree.Read(ctx, from)
	if err != nil {
		return fault.Wrap(err, op, from)
	}
	if len(data) > MaxFile {
		return tooLarge
	}
	n.data, n.unread = data, false
	return nil
}

// make applies a section to the old node. For a new file, old is nil.
func (c *check) make(s *section, old *node) (made *node, moved int, err error) {
	made = &node{mode: 0o644}
	if old == nil {
		made.mode |= s.new.typeOf()
	} else {
		*made = *old
	}
	if s.new != 0 {
		if made.mode.Type() != s.new.typeOf() {
			return nil, 0, conflict(s.path, "the patch sets the mode of another file type")
		}
		made.mode = withExecutable(made.mode, s.new.executable())
	}
	switch deletes := s.status == Deleted && fullHash(s.oldHash) && zeroHash(s.newHash); {
	case s.binary != nil || s.nameless && deletes:
		if old != nil && hash(old.data, len(s.oldHash)) != s.oldHash {
			return nil, 0, conflict(s.path, "its content is not the content that the patch was made for")
		}
		if made.data = nil; s.binary != nil {
			made.data, err = s.patchBinary(oldData(old))
		}
	case s.nameless:
		return nil, 0, invalid(s.line, "the patch says that %.200q differs, but has no content for it: use git diff --binary", s.path)
	case len(s.hunks) > 0:
		made.data, moved, err = patchText(s.path, oldData(old), s.hunks, made.mode&fs.ModeSymlink != 0, &c.steps)
	}
	if err != nil {
		return nil, 0, err
	}
	if made.mode&fs.ModeSymlink != 0 && s.status != Deleted && (len(made.data) == 0 || len(made.data) >= maxPath || bytes.IndexByte(made.data, 0) >= 0) {
		return nil, 0, invalid(s.line, "%.200q becomes a symbolic link with an invalid target", s.path)
	}
	return made, moved, nil
}

func oldData(old *node) []byte {
	if old == nil {
		return nil
	}
	return old.data
}

// withExecutable sets or clears the executable bits of a mode. It sets an executable bit only if
// the corresponding read bit is set. It does not change the modes of symbolic links.
func withExecutable(m fs.FileMode, executable bool) fs.FileMode {
	switch {
	case m&fs.ModeSymlink != 0 || executable == (m&0o100 != 0):
		return m
	case executable:
		return m | m&0o444>>2
	}
	return m &^ 0o111
}

// stat returns the entry at a path, or nil if there is none. It checks the parent directories
// before the path. Nothing therefore exists below a file or a symbolic link.
func (c *check) stat(ctx context.Context, p string) (*Entry, error) {
	if e, ok := c.seen[p]; ok {
		return e, nil
	}
	if dir := path.Dir(p); dir != "." {
		parent, err := c.stat(ctx, dir)
		if err != nil || parent == nil || !parent.Mode.IsDir() {
			return nil, err
		}
	}
	e, err := c.tree.Stat(ctx, p)
	if errors.Is(err, fs.ErrNotExist) {
		c.seen[p] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, op, p)
	}
	c.seen[p] = &e
	return &e, nil
}

// arrives checks that the patch can create a file at a path.
func (c *check) arrives(ctx context.Context, p string) error {
	e, err := c.stat(ctx, p)
	if err != nil {
		return err
	}
	if e != nil && !e.Mode.IsDir() && !c.vacated[p] { // a directory might become empty
		return conflict(p, "it exists already")
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		e, err := c.stat(ctx, dir)
		if err != nil {
			return err
		}
		switch {
		case e == nil || e.Mode.IsDir() || c.vacated[dir]:
		case e.Mode&fs.ModeSymlink != 0:
			return beyond(p, dir)
		default:
			return conflict(p, "%.200q above it is not a directory", dir)
		}
	}
	return nil
}
