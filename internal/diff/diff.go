// Package diff compares two file trees, such as a workspace's baseline and its current content.
//
// The result has two forms: entries and a patch.
//
// The entries ([Change]) are complete. They contain every path that was added, modified or deleted,
// or whose type changed. They include modes, links, empty directories and special files.
//
// The patch is in git's extended unified format. It contains the changes that git can represent:
// the content of files, their executable bits, and symbolic links. Within git's model, `git apply`
// turns the old tree into the new tree. Git has no empty directories, no permissions besides the
// owner's executable bit, no special files, and no paths named .git. The patch does not contain
// such changes.
//
// The patch is always valid UTF-8, so that JSON can contain it. Names that contain bytes other than
// printable ASCII are quoted. Content that is not valid UTF-8 is a binary literal. Git in contrast
// treats content as binary if it has a NUL byte near its start.
//
// Both trees are streams. The package reads content only if the listings do not show that it is
// equal. One tree can come from a guest. Therefore an inconsistent listing is an error, and the
// limits below restrict the memory use.
//
// The caller should prevent changes during the comparison. Otherwise each file counts with the
// content that it has when it is read. A file that no longer exists at that time counts as deleted.
//
// By default, two kinds of build leftovers are not compared: directories named __pycache__, and new
// paths that a .gitignore file of the new tree ignores. As in git, a path that was in the old tree
// is compared even if it is ignored. The summary counts the paths that were not compared. An option
// includes them.
package diff

import (
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/ignore"
)

// Limits for a comparison.
const (
	MaxText           = 8 << 20  // In bytes, of a file that is compared line by line.
	MaxLines          = 200_000  // Of such a file. A file with more lines counts as binary.
	MaxContent        = 16 << 20 // In bytes, of a file whose content can be in the patch.
	DefaultPatchLimit = 64 << 20 // In bytes, of a patch.
	DefaultEntryLimit = 100_000  // Entries in a result.
)

// Entry is an entry of a listing: a file, directory, symbolic link or special file.
type Entry struct {
	Path string      // Relative to the root. Can be invalid UTF-8.
	Mode fs.FileMode // Type, permission bits, setuid, setgid and sticky.
	Size int64       // Of a file, in bytes.
	Link string      // Target of a symbolic link.

	// Identity identifies the content of a file. It can be a hash, or the file's inode and times.
	// Two files with equal, non-empty identities must have equal content. Compare reads and
	// compares all other files.
	Identity string
}

// Tree is one side of a comparison.
type Tree interface {
	// List yields all entries except the root in depth-first order. A directory comes before its
	// content, and names are sorted by their bytes. The sequence ends after an error. Callers use
	// it only once.
	List(ctx context.Context) iter.Seq2[Entry, error]
	// Open opens the content of a regular file. The caller must close it. Open MUST NOT follow
	// symbolic links. If the file no longer exists, it returns fs.ErrNotExist.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// Options specifies what to compare and how much to report. Zero values mean the defaults.
type Options struct {
	PatchLimit int64 // In bytes. The patch ends before the first file that exceeds this limit.
	EntryLimit int   // Maximum number of entries. The summary still counts all changes.

	Paths          []string // Compare only these paths and everything below them. Empty means all.
	IncludeIgnored bool     // Also compare ignored paths, see the package comment.
}

// Result is the result of a comparison.
type Result struct {
	Entries []Change `json:"entries"` // in the order of the listings
	Summary Summary  `json:"summary"`
	// Truncated means that the patch has reached its limit. Later entries have PatchOmitted set.
	Truncated bool `json:"truncated"`
	// EntriesTruncated means that Entries does not contain all changes. The summary counts all of
	// them.
	EntriesTruncated bool `json:"entries_truncated"`
}

// Compare compares two trees. It writes the patch to the writer patch, which can be nil. If ctx is
// cancelled, it returns the error of ctx. If an error occurs, the patch written so far consists of
// complete sections for a part of the files.
func Compare(ctx context.Context, before, after Tree, patch io.Writer, o Options) (*Result, error) {
	if o.PatchLimit <= 0 {
		o.PatchLimit = DefaultPatchLimit
	}
	if o.EntryLimit <= 0 {
		o.EntryLimit = DefaultEntryLimit
	}
	c := &comparison{before: before, after: after, patch: patch, options: o, paths: newPaths(o.Paths), result: &Result{Entries: []Change{}}}
	if err := c.run(ctx); err != nil {
		return nil, fault.Wrap(err, "compare trees", "")
	}
	return c.result, nil
}

// comparison is the state of a call of Compare.
type comparison struct {
	before, after Tree
	patch         io.Writer
	options       Options
	paths         *paths
	ignored       *ignore.Tree
	written       int64 // size of the patch so far, in bytes
	result        *Result
}

// run walks through both listings together, and compares the entries with equal paths.
func (c *comparison) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ignored = ignoredIn(ctx, c.after)
	old, now := open(c.before.List(ctx)), open(c.after.List(ctx))
	defer old.close()
	defer now.close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := old.fill(); err != nil {
			return fault.Wrap(err, "list", "the tree before")
		}
		if err := now.fill(); err != nil {
			return fault.Wrap(err, "list", "the tree after")
		}
		a, b := old.head, now.head
		if a == nil && b == nil {
			return c.paths.missing()
		}
		if a != nil && b != nil {
			switch order := comparePaths(a.Path, b.Path); {
			case order < 0:
				b = nil
			case order > 0:
				a = nil
			}
		}
		if a != nil {
			old.head = nil
		}
		if b != nil {
			now.head = nil
		}
		if leave, err := c.skip(ctx, a, b); err != nil {
			return err
		} else if leave {
			continue
		}
		if err := c.pair(ctx, a, b); err != nil {
			return err
		}
	}
}
