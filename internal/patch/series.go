package patch

import "context"

// route determines where each section gets its old file: from the tree or from an earlier section.
// It also records which paths the patch deletes or renames. It rejects patches with contradictory
// sections.
//
// A git patch describes one step, so its renames and copies always read the original tree.
// Concatenated patches describe several steps. A later step can change, rename or delete a file
// that an earlier step creates. Such a file is not in the tree, or an earlier section has removed
// it from the tree. This distinguishes the two cases.
func (c *check) route(ctx context.Context, sections []*section) error {
	r := &routes{check: c, made: map[string]bool{}, changed: map[string]bool{}}
	for _, s := range sections {
		if err := r.route(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// routes records the effects of the sections so far.
type routes struct {
	*check
	made    map[string]bool // paths that earlier sections created
	changed map[string]bool // paths of the tree that earlier sections changed
}

func (r *routes) route(ctx context.Context, s *section) error {
	from := s.oldPath()
	e, err := r.stat(ctx, from)
	if err != nil {
		return err
	}
	if s.status == Modified && e == nil && !r.made[s.path] && len(s.hunks) == 1 && s.hunks[0].old == 0 {
		s.status = Added // The patch does not mark the file as new.
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
		return invalid(s.line, "%.200q is created after it was changed", s.path)
	}
	r.made[s.path] = true
	return nil
}

func (r *routes) changes(s *section) error {
	s.again = r.made[s.path] || r.changed[s.path]
	if !s.again && r.vacated[s.path] {
		return invalid(s.line, "%.200q is changed after it was deleted or renamed", s.path)
	}
	r.changed[s.path] = !r.made[s.path]
	return nil
}

// takes records that a section removes a file. The file is the one in the tree, if no earlier
// section has removed that file. Otherwise it is the file that an earlier section created.
func (r *routes) takes(s *section, from string, missing bool) error {
	switch {
	case s.status == Renamed && (r.changed[from] || r.made[from] && r.vacated[from]):
		return invalid(s.line, "%.200q is renamed after it was changed or replaced: the rename could mean the old file or the new one", from)
	case r.made[from] && (missing || r.vacated[from]):
		s.again = true
		delete(r.made, from)
		return nil
	case r.vacated[from]:
		return invalid(s.line, "%.200q is deleted or renamed twice", from)
	}
	s.again = r.changed[from]
	delete(r.changed, from)
	r.vacated[from] = true
	return nil
}
