package patch

import "context"

// route finds out for each section whether it takes its file from the tree or from the sections before it, and which paths leave the tree. It refuses
// patches that say two things of one path.
//
// A patch of git describes one step: renames and copies take the tree's files, in whatever order. Patches joined together describe several: a file that
// one creates is then changed, renamed or deleted by another. Such a file is not in the tree, or no longer, so the two can be told apart.
func (c *check) route(ctx context.Context, sections []*section) error {
	r := &routes{check: c, made: map[string]bool{}, changed: map[string]bool{}}
	for _, s := range sections {
		if err := r.route(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// routes knows what the sections so far have done.
type routes struct {
	*check
	made    map[string]bool // paths that they have created
	changed map[string]bool // paths of the tree that they have changed
}

func (r *routes) route(ctx context.Context, s *section) error {
	from := s.taken()
	e, err := r.stat(ctx, from)
	if err != nil {
		return err
	}
	if s.status == Modified && e == nil && !r.made[s.path] && len(s.hunks) == 1 && s.hunks[0].old == 0 {
		s.status = Added // although the patch does not call it new
	}
	switch s.status {
	case Modified:
		return r.changes(s)
	case Copied:
		s.again = r.made[from] && e == nil
	case Deleted, Renamed:
		if err := r.takes(s, from, e == nil); err != nil {
			return err
		}
	}
	if s.status == Deleted {
		return nil
	}
	switch {
	case r.made[s.path]:
		return invalid(s.line, "%.200q is created twice", s.path)
	case r.changed[s.path]:
		return invalid(s.line, "%.200q is changed, and then created", s.path)
	}
	r.made[s.path] = true
	return nil
}

func (r *routes) changes(s *section) error {
	s.again = r.made[s.path] || r.changed[s.path]
	if !s.again && r.leaving[s.path] {
		return invalid(s.line, "%.200q is deleted or renamed, and then changed", s.path)
	}
	r.changed[s.path] = !r.made[s.path]
	return nil
}

// takes notes that a section takes a file away: that of the tree, unless it has none, or none any more.
func (r *routes) takes(s *section, from string, missing bool) error {
	switch {
	case s.status == Renamed && (r.changed[from] || r.made[from] && r.leaving[from]):
		return invalid(s.line, "%.200q is changed or replaced, and then renamed: what is renamed could be the old file or the new one", from)
	case r.made[from] && (missing || r.leaving[from]):
		s.again = true
		delete(r.made, from)
		return nil
	case r.leaving[from]:
		return invalid(s.line, "%.200q is deleted or renamed twice", from)
	}
	s.again = r.changed[from]
	delete(r.changed, from)
	r.leaving[from] = true
	return nil
}
