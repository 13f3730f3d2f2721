// Package patch checks unified patches against a tree of files, and plans what they change. It writes nothing: whoever commits a [Plan] does, all or
// nothing.
//
// It reads what git, GNU diff and an agent write: git's extended headers (new, deleted, renamed and copied files, modes, symbolic links, binary literals
// and deltas) and plain "---" and "+++" lines, with prefixes such as a/ and b/ or none. It is as strict as `git apply` about what a patch says, and more
// tolerant about where it says it, because who writes a patch by hand miscounts:
//
//   - Every context and removed line must be in the file; there is no fuzz. As with git, a hunk at line 1 without context before its changes matches only
//     at the start of the file, and one without context after its changes only at the end. So what it adds is not added twice. Others are tried at their
//     line, moved as the hunk before was, and apply elsewhere if that is one place in the file. They never apply where git would not put them too, but for
//     those that say line 1 or 0, which is what an agent writes that does not count lines.
//   - The counts in a hunk's header may be wrong where its lines leave no doubt of where it ends. They are counted again.
//   - The ends of lines are not compared: LF, CR LF, or none at the end of a file. Where they are other than the patch says, context keeps the file's and
//     what is added gets those of the lines around it. So a patch in LF fits a file in CR LF, and the other way round. Where they are the same, a patch
//     can change them. A patch whose headers end in CR LF was converted on its way, and is read as though it ended its lines in LF.
//   - A file that a patch only adds lines to is created where there is none, even if the header does not call it new.
//
// What can't be tolerated is an error of two kinds. A patch that makes no sense is fault.Invalid and names a line of the patch. A patch that does not fit
// the tree is a [Conflict], fault.Precondition.
//
// As with git, renames and copies take from the tree as it was before the patch, a path that is deleted or renamed may be created anew in the same patch,
// and several changes of one file follow each other. What is not in the tree is taken from what the patch has made so far. A directory that loses its last
// file by a patch is removed with it. No symbolic link is followed. docs/patches.md compares all this with git.
package patch

import (
	"context"
	"io/fs"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits of a patch, and of the files that it changes.
const (
	MaxPatch   = 64 << 20  // bytes
	MaxFiles   = 10_000    // files in a patch
	MaxHunks   = 200_000   // hunks in a patch
	MaxFile    = 16 << 20  // bytes of a file that is changed
	MaxLines   = 4_000_000 // lines of it
	MaxContent = 256 << 20 // bytes of all new content together
)

// Entry is what a tree tells of a file, directory, link or special file.
type Entry struct {
	Mode fs.FileMode // type, permission bits, setuid, setgid and sticky
	Size int64       // of a file, in bytes
	Link string      // the target of a symbolic link
	// Identity is the tree's own, such as a file's inode and times. A plan keeps it, so that whoever commits can demand that nothing has changed.
	Identity string
}

// Tree is what a patch is checked against. Paths are relative to its root, valid, and never follow a symbolic link.
type Tree interface {
	// Stat tells what is at a path, and of a symbolic link the link. fs.ErrNotExist says that nothing is.
	Stat(ctx context.Context, path string) (Entry, error)
	// Read gives the content of a regular file of at most MaxFile bytes.
	Read(ctx context.Context, path string) ([]byte, error)
	// List gives the names in a directory. It is asked for those that a patch takes files from, to find the ones that it empties.
	List(ctx context.Context, path string) ([]string, error)
}

// Plan is what a patch changes. The operations are done in their order.
type Plan struct {
	Operations []Operation
	Files      []File // in the order of the patch
	Summary    Summary
}

// Operation is one step of a plan.
type Operation struct {
	Do      Verb
	Path    string
	Content []byte      // the whole of it, for WriteFile
	Link    string      // the target, for WriteLink
	Mode    fs.FileMode // permission bits, setuid, setgid and sticky, for WriteFile and ChangeMode
	// Seen is what was at the path before the plan, nil for nothing: the operation replaces it. Of a directory only that it is one means something, for it
	// changes with what is removed from it.
	Seen *Entry
	// Source is what a renamed or copied file was made of, nil for others.
	Source *Source
}

// Source is a file that another was made of.
type Source struct {
	Path string
	Seen Entry
}

// Verb says what an operation does.
type Verb string

// The verbs, in the order in which they come in a plan. What is removed comes before what it is in; what is written in the order of the paths.
const (
	Remove          Verb = "remove"           // a file or link
	RemoveDirectory Verb = "remove_directory" // which is empty by then
	WriteFile       Verb = "write_file"       // with the directories above it, where they are missing
	WriteLink       Verb = "write_link"       // likewise
	ChangeMode      Verb = "change_mode"      // of a file, whose content stays
)

// File says what a patch does to one file.
type File struct {
	Path         string `json:"path"`
	OldPath      string `json:"old_path,omitempty"` // where it is renamed or copied from
	Status       Status `json:"status"`
	LinesAdded   int    `json:"lines_added"`
	LinesRemoved int    `json:"lines_removed"`
	HunksMoved   int    `json:"hunks_moved"` // that applied at another line than their header says
}

// Status says what becomes of a file.
type Status string

// The statuses. A file that becomes a link, or the other way round, is deleted and then added.
const (
	Added    Status = "added"
	Modified Status = "modified"
	Deleted  Status = "deleted"
	Renamed  Status = "renamed"
	Copied   Status = "copied"
)

// Summary counts what a patch does.
type Summary struct {
	FilesAdded    int `json:"files_added"`
	FilesModified int `json:"files_modified"`
	FilesDeleted  int `json:"files_deleted"`
	FilesRenamed  int `json:"files_renamed"`
	FilesCopied   int `json:"files_copied"`
	LinesAdded    int `json:"lines_added"`
	LinesRemoved  int `json:"lines_removed"`
	HunksMoved    int `json:"hunks_moved"`
}

const op = "apply patch"

// Check checks a patch against a tree, and plans what it changes. Nothing is planned unless all of the patch fits. The error is a fault: Invalid for a
// patch that makes no sense, Precondition with a [Conflict] for one that does not fit, Exhausted for one beyond the limits, or the tree's own.
func Check(ctx context.Context, text []byte, tree Tree) (*Plan, error) {
	sections, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := &check{tree: tree, seen: map[string]*Entry{}, leaving: map[string]bool{}, now: map[string]*node{}, steps: maxSteps}
	if err := c.route(ctx, sections); err != nil {
		return nil, err
	}
	plan := &Plan{}
	for _, s := range sections {
		if err := ctx.Err(); err != nil {
			return nil, fault.Wrap(err, op, s.path)
		}
		f, err := c.section(ctx, s)
		if err != nil {
			return nil, err
		}
		plan.Files = append(plan.Files, f)
		plan.Summary.count(f)
	}
	if plan.Operations, err = c.operations(ctx); err != nil {
		return nil, err
	}
	return plan, nil
}

func (s *Summary) count(f File) {
	switch f.Status {
	case Added:
		s.FilesAdded++
	case Modified:
		s.FilesModified++
	case Deleted:
		s.FilesDeleted++
	case Renamed:
		s.FilesRenamed++
	case Copied:
		s.FilesCopied++
	}
	s.LinesAdded += f.LinesAdded
	s.LinesRemoved += f.LinesRemoved
	s.HunksMoved += f.HunksMoved
}
