// Package patch checks unified patches against a tree of files and plans the changes. It writes
// nothing. The caller must commit the [Plan] as a whole.
//
// It reads patches from git, GNU diff and AI agents. It supports git's extended headers: new,
// deleted, renamed and copied files, modes, symbolic links, and binary literals and deltas. It also
// reads plain "---" and "+++" lines, with or without prefixes such as a/ and b/.
//
// It is as strict as `git apply` about content. It is more tolerant about line numbers and counts,
// because these are often wrong in handwritten patches:
//
//   - Every context line and removed line must be in the file. There is no fuzz. As in git, a hunk
//     at line 1 without leading context matches only at the start of the file. A hunk without
//     trailing context matches only at the end. These rules prevent applying additions twice.
//   - Other hunks are tried at the line in their header, shifted by the distance of the previous
//     hunk. If they do not match there, every line is tried. They apply elsewhere only if exactly
//     one line matches. Git would choose the same line, except for hunks that state line 1 or 0.
//     Agents that do not count lines write such hunks.
//   - The counts in a hunk header can be wrong if the lines of the hunk show clearly where it ends.
//     The hunk is then counted again.
//   - Line ends (LF, CR LF, or none at the end of a file) are not compared. If the line ends of
//     file and patch differ, context keeps the file's line ends, and added lines get the line ends
//     around them. If they are equal, a patch can change them. If the headers end in CR LF, the
//     whole patch was converted, and its lines are read as if they ended in LF.
//   - If a patch only adds lines to a file that does not exist, the file is created. The header
//     does not need to mark the file as new.
//
// All other problems are errors of two kinds. If the patch is malformed, the error is fault.Invalid
// and contains a line number of the patch. If the patch does not fit the tree, the error is a
// [Conflict] and fault.Precondition.
//
// As in git, renames and copies read the tree before the patch. The same patch can create a path
// again after it deletes or renames the path. Several changes to one file apply in order. If a file
// is not in the tree, it can come from an earlier section. If a patch deletes the last file of a
// directory, the directory is deleted too. Symbolic links are never followed. docs/patches.md
// compares these rules with git.
package patch

import (
	"context"
	"io/fs"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Limits for a patch and for the files that it changes.
const (
	MaxPatch   = 64 << 20  // In bytes.
	MaxFiles   = 10_000    // In a patch.
	MaxHunks   = 200_000   // In a patch.
	MaxFile    = 16 << 20  // In bytes, of a changed file.
	MaxLines   = 4_000_000 // In a changed file.
	MaxContent = 256 << 20 // In bytes, of all new content together.
)

// Entry describes a file, directory, symbolic link or special file in a tree.
type Entry struct {
	Mode fs.FileMode // type, permission bits, setuid, setgid and sticky
	Size int64       // size of a file, in bytes
	Link string      // target of a symbolic link
	// Identity is an opaque version of the entry, such as its inode and times. A plan contains it,
	// so that the commit can check that nothing has changed.
	Identity string
}

// Tree is the tree against which Check checks a patch. Paths are valid and relative to the root of
// the tree. No method follows symbolic links.
type Tree interface {
	// Stat describes the entry at a path. If there is none, it returns fs.ErrNotExist.
	Stat(ctx context.Context, path string) (Entry, error)
	// Read returns the content of a regular file of at most MaxFile bytes.
	Read(ctx context.Context, path string) ([]byte, error)
	// List returns the names in a directory. Check calls it to find directories that become empty.
	List(ctx context.Context, path string) ([]string, error)
}

// Plan is the result of checking a patch. The operations must be executed in order.
type Plan struct {
	Operations []Operation
	Files      []File // files in the order of the patch
	Summary    Summary
}

// Operation is one step of a plan.
type Operation struct {
	Do      Verb
	Path    string
	Content []byte      // For WriteFile: the complete content.
	Link    string      // For WriteLink: the link target.
	Mode    fs.FileMode // For WriteFile and ChangeMode: permission bits, setuid, setgid and sticky.
	// Seen is the entry at the path before the plan is executed, or nil if there is none. The
	// operation replaces that entry. For a directory, only its type is relevant, because deleting
	// its files changes its other properties.
	Seen *Entry
	// Source is the old file of a renamed or copied file. It is nil for other files.
	Source *Source
}

// Source is the old file of a renamed or copied file.
type Source struct {
	Path string
	Seen Entry
}

// Verb is the kind of an operation.
type Verb string

// Values of Verb, in the order of a plan. A plan removes files before their directory. Writes are
// sorted by path.
const (
	Remove          Verb = "remove"           // Remove a file or symbolic link.
	RemoveDirectory Verb = "remove_directory" // Remove an empty directory.
	WriteFile       Verb = "write_file"       // Write a file, and create missing parent directories.
	WriteLink       Verb = "write_link"       // Write a symbolic link, and create missing parent directories.
	ChangeMode      Verb = "change_mode"      // Change the mode of a file without changing its content.
)

// File describes the changes to one file.
type File struct {
	Path         string `json:"path"`
	OldPath      string `json:"old_path,omitempty"` // old path of a renamed or copied file
	Status       Status `json:"status"`
	LinesAdded   int    `json:"lines_added"`
	LinesRemoved int    `json:"lines_removed"`
	HunksMoved   int    `json:"hunks_moved"` // number of hunks that applied at a line other than the line in their header
}

// Status is the kind of change to a file.
type Status string

// Values of Status. A file that becomes a symbolic link is deleted and then added, and vice versa.
const (
	Added    Status = "added"
	Modified Status = "modified"
	Deleted  Status = "deleted"
	Renamed  Status = "renamed"
	Copied   Status = "copied"
)

// Summary counts the changes in a patch.
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

// Check checks a patch against a tree and plans the changes. It returns a plan only if the whole
// patch fits the tree. If the patch is malformed, the error has kind Invalid. If the patch does not
// fit, the error is a [Conflict] and has kind Precondition. If the patch exceeds the limits, the
// error has kind Exhausted. Check also returns errors from the tree.
func Check(ctx context.Context, text []byte, tree Tree) (*Plan, error) {
	sections, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := &check{tree: tree, seen: map[string]*Entry{}, vacated: map[string]bool{}, now: map[string]*node{}, steps: maxSteps}
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
