// Package diff tells what differs between two trees of files, such as a workspace's baseline and what it holds now.
//
// What it tells has two forms. The [Change] entries are complete: every path that was added, modified, deleted or became something else, with modes,
// links, empty directories and special files. The patch is git's extended unified format, for what that can say: the content of files, whether they are
// executable, and symbolic links. `git apply` of the patch on the tree before gives the tree after, as far as git knows trees: it has no empty
// directories, no permission bits but the owner's x, no special files and nothing of the name .git. Where such a thing is all that a change consists of,
// it is an entry only.
//
// The patch is always valid UTF-8, so that it comes through JSON as it is: names that are not plain ASCII are quoted, and content that is not UTF-8 is
// written as a binary literal. That is the one way in which it differs from git, which calls binary what has a zero byte near its begin.
//
// Both trees are read as streams, and the content of files only where the listings don't tell that it is the same. One of the trees may be a guest's: a
// listing that makes no sense is an error, and what is held in memory at a time is bounded by the limits below. The caller keeps the trees from changing
// while they are compared. Where it can't, each file is told as it was when it was read, and one that went away by then as deleted.
//
// What a build leaves behind is not compared, unless the options say so: folders named __pycache__,
// and what is new and ignored by a .gitignore of the tree after. A path that was in the tree before
// is compared although it is ignored, as git does with tracked files. The summary counts what was
// left out.
package diff

import (
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/ignore"
)

// Limits.
const (
	MaxText           = 8 << 20  // bytes of a file that is compared line by line
	MaxLines          = 200_000  // lines of it; a file with more of either is told as binary
	MaxContent        = 16 << 20 // bytes of a file whose content is in the patch
	DefaultPatchLimit = 64 << 20 // bytes of a patch
	DefaultEntryLimit = 100_000  // entries of a result
)

// Entry is what a listing tells of one file, directory, link or special file.
type Entry struct {
	Path string      // relative to the root; names are bytes, with slashes between them
	Mode fs.FileMode // type, permission bits, setuid, setgid and sticky
	Size int64       // of a file, in bytes
	Link string      // the target of a symbolic link

	// Identity names a file's content: a hash, or the inode with its times. Two files whose identities are equal and not empty have the same content,
	// surely. Any other two are read and compared.
	Identity string
}

// Tree is one of the two trees.
type Tree interface {
	// List gives all entries but the root, in depth-first order: a directory before what is in it, and the names in a directory in the order of their bytes.
	// The sequence ends after an error. It is used once.
	List(ctx context.Context) iter.Seq2[Entry, error]
	// Open opens the content of a regular file, which the caller closes. It MUST NOT follow a symbolic link. fs.ErrNotExist says that the file is gone.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// Options say what to compare, and how much of it to report. Zero stands for the default.
type Options struct {
	PatchLimit int64 // bytes; the patch ends before the first file that would exceed it
	EntryLimit int   // entries; the summary goes on counting

	Paths          []string // only these, with all that is below them; none: everything
	IncludeIgnored bool     // what is ignored too, see the package
}

// Result is what differs.
type Result struct {
	Entries []Change `json:"entries"` // in the order of the listings
	Summary Summary  `json:"summary"`
	// Truncated: the patch ended at its limit. The entries that are not in it any more say patch_omitted.
	Truncated bool `json:"truncated"`
	// EntriesTruncated: there are more changes than Entries. The summary counts them all.
	EntriesTruncated bool `json:"entries_truncated"`
}

// Compare tells how after differs from before, and writes the patch to patch, which may be nil. When ctx ends so does the work, with its error. What was
// written until an error is whole files of the patch, and no more than a part of it.
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

// comparison is the work of one Compare.
type comparison struct {
	before, after Tree
	patch         io.Writer
	options       Options
	paths         *paths
	ignored       *ignore.Tree
	written       int64 // bytes of the patch
	result        *Result
}

// run merges the two listings.
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
		if leave, err := c.leaveOut(ctx, a, b); err != nil {
			return err
		} else if leave {
			continue
		}
		if err := c.pair(ctx, a, b); err != nil {
			return err
		}
	}
}
