package diff

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// pair compares the old and the new entry of a path, and reports a change. One entry can be nil.
func (c *comparison) pair(ctx context.Context, before, after *Entry) error {
	sameType := before != nil && after != nil && before.Mode.Type() == after.Mode.Type()
	sameContent := sameType && (before.Mode.IsRegular() && before.Identity != "" && before.Identity == after.Identity ||
		!before.Mode.IsRegular() && before.Link == after.Link)
	var old, now content
	if !sameContent {
		var err error
		if now, err = read(ctx, c.after, after); errors.Is(err, fs.ErrNotExist) && before != nil {
			return c.pair(ctx, before, nil)
		} else if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fault.Wrap(err, "read", after.Path)
		}
		if old, err = read(ctx, c.before, before); err != nil {
			return fault.Wrap(err, "read", before.Path)
		}
		if sameType {
			if sameContent, err = c.equal(ctx, before, after, old, now); errors.Is(err, errGone) {
				return c.pair(ctx, before, nil)
			} else if err != nil {
				return fault.Wrap(err, "compare", after.Path)
			}
		}
	}
	if sameContent {
		old, now = content{}, content{} // Only the mode can differ.
		if bitsOf(before.Mode) == bitsOf(after.Mode) {
			return nil
		}
	}
	change := describe(before, after)
	wanted := c.patch != nil && !c.result.Truncated && !GitRefuses(change.Path, change.Kind == Symlink || change.OldKind == Symlink)
	var sections []section
	if sameType {
		sections = append(sections, newSection(change.Path, &blob{gitMode(before.Mode), old}, &blob{gitMode(after.Mode), now}, wanted))
	} else {
		if before != nil {
			sections = append(sections, newSection(change.Path, &blob{gitMode(before.Mode), old}, nil, wanted))
		}
		if after != nil {
			sections = append(sections, newSection(change.Path, nil, &blob{gitMode(after.Mode), now}, wanted))
		}
	}
	return c.report(change, sections, wanted)
}

// report adds a change to the result. If wanted is set, it also adds the change's sections to the
// patch. It adds either all sections of a path or none.
func (c *comparison) report(change Change, sections []section, wanted bool) error {
	var text []byte
	for _, s := range sections {
		text = append(text, s.text...)
		change.LinesAdded += s.added
		change.LinesRemoved += s.removed
		change.Binary = change.Binary || s.binary
		change.PatchOmitted = change.PatchOmitted || s.omitted
	}
	wanted = wanted && !change.PatchOmitted
	if wanted && c.written+int64(len(text)) > c.options.PatchLimit {
		c.result.Truncated, wanted = true, false
	}
	if !wanted && len(text) > 0 && c.patch != nil {
		change.PatchOmitted = true
	}
	if wanted {
		n, err := c.patch.Write(text)
		c.written += int64(n)
		if err != nil {
			return fault.Wrap(err, "write patch", "")
		}
	}
	c.result.Summary.count(change)
	if len(c.result.Entries) == c.options.EntryLimit {
		c.result.EntriesTruncated = true
		return nil
	}
	c.result.Entries = append(c.result.Entries, change)
	return nil
}

// equal reports whether two files or symbolic links have equal content.
func (c *comparison) equal(ctx context.Context, before, after *Entry, old, now content) (bool, error) {
	if before.Size != after.Size || old.large != now.large {
		return false, nil
	}
	if !old.large {
		return bytes.Equal(old.data, now.data), nil
	}
	return equalStreams(ctx, c.before, c.after, before.Path, before.Size)
}
