// Package pull brings the changes of a workspace back into a folder of the host.
//
// A pull is a three-way merge. The baseline is the content that the workspace had after its
// creation. A change of the workspace is applied if the entry in the folder is the same as in the
// baseline. If the entry already is the same as in the workspace, nothing happens. Everything else
// is a conflict. Entries that the workspace has not changed are never touched.
//
// Modes count as in git: only the executable bit of the owner matters.
package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// Resolution controls the handling of conflicts.
type Resolution string

// Values of Resolution. As in git, "ours" is the side that gets the changes.
const (
	Refuse Resolution = ""       // change nothing if there is a conflict.
	Ours   Resolution = "ours"   // keep the entry of the host.
	Theirs Resolution = "theirs" // take the entry of the workspace.
	Merge  Resolution = "merge"  // merge the lines of text files, with markers around conflicts.
)

// Change is one change of the workspace, and its effect on the folder.
type Change struct {
	Path   string      `json:"path"`
	Status diff.Status `json:"status"`
	Kind   diff.Kind   `json:"kind"`
	// Conflict is the reason why the change can't be applied to the folder. It is empty if there is
	// no conflict.
	Conflict string `json:"conflict,omitempty"`
	// Result is the effect of the pull on the entry.
	Result Result `json:"result"`
}

// Result is the effect of a change on the folder.
type Result string

// Values of Result.
const (
	// Applied: the folder gets the entry of the workspace.
	Applied Result = "applied"
	// Unchanged: the folder already has the entry of the workspace, or the workspace has changed
	// only permissions that git ignores.
	Unchanged Result = "unchanged"
	// Kept: the entry of the host stays. Ours was set, or the entry is a directory with files of
	// the host, or a special file.
	Kept Result = "kept"
	// Merged: the file gets the lines of both sides.
	Merged Result = "merged"
	// Marked: like Merged, but the file also gets conflict markers.
	Marked Result = "marked"
	// Conflicted: the plan can't be applied.
	Conflicted Result = "conflicted"
)

// Tree provides the content of files. Open is as in [diff.Tree].
type Tree interface {
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// Sides are the three sides of a merge.
type Sides struct {
	Baseline, Workspace Tree
	Folder              *os.File // the folder of the host
}

// Plan lists the changes that a pull would apply.
type Plan struct {
	Changes    []Change
	operations []operation
	sides      Sides
}

// Conflicts returns the changes that can't be applied.
func (p *Plan) Conflicts() []Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Result != Conflicted })
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.operations) == 0 }

// operation is a modification of the folder.
type operation struct {
	path    string
	do      verb
	expect  string // the mark that the entry of the host must have, or "absent"; empty for directories
	keep    bool   // keep the mode and owner
	mode    fs.FileMode
	size    int64
	link    string
	content []byte // merged content; nil: the file of the workspace
}

type verb int

const (
	removeEntry verb = iota
	makeDirectory
	writeFile
	writeLink
	setMode
)

// New compares the changes of a workspace, in the order of [diff.Result], with the folder.
func New(ctx context.Context, changes []diff.Change, sides Sides, resolve Resolution) (*Plan, error) {
	p := &planner{Plan: &Plan{Changes: make([]Change, len(changes)), sides: sides}, ctx: ctx, resolve: resolve, removed: map[string]bool{}, umask: umask()}
	// Remove entries first, so that a file can replace a directory. The content of a directory
	// comes after the directory, so remove in reverse order.
	for i, c := range slices.Backward(changes) {
		if c.Status == diff.Deleted || c.Status == diff.TypeChanged && c.OldKind == diff.Directory {
			if err := p.plan(i, c); err != nil {
				return nil, err
			}
		}
	}
	for i, c := range changes {
		if p.Changes[i].Result == "" {
			if err := p.plan(i, c); err != nil {
				return nil, err
			}
		}
	}
	return p.Plan, nil
}

// planner is the state of a call of New.
type planner struct {
	*Plan
	ctx     context.Context
	resolve Resolution
	removed map[string]bool // removed entries of the host
	umask   fs.FileMode
}

// plan adds the result of one change to the plan.
func (p *planner) plan(i int, c diff.Change) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	result, conflict, err := p.decide(c)
	if err != nil {
		return fault.Wrap(err, "compare", c.Path)
	}
	p.Changes[i] = Change{Path: c.Path, Status: c.Status, Kind: c.Kind, Conflict: conflict, Result: result}
	return nil
}

// decide returns the result of a change, and adds its operations.
func (p *planner) decide(c diff.Change) (result Result, conflict string, err error) {
	if c.OldKind == diff.Other { // the host does not need to have the special file
		c.Status, c.OldKind = diff.Added, ""
	}
	if ignored, err := p.onlyMode(c); err != nil || ignored {
		return Unchanged, "", err
	}
	host, err := lookUp(p.sides.Folder, c.Path)
	if err != nil {
		return "", "", err
	}
	if c.Kind == diff.Other {
		return p.special(host, c)
	}
	if p.removed[host.blocked] {
		host = entry{} // the pull replaces the file or link by a directory
	}
	if host.blocked != "" {
		if c.Status == diff.Deleted {
			return Unchanged, "", nil // it does not exist below a file or a link
		}
		return p.unresolvable(fmt.Sprintf("%q is not a directory on the host", host.blocked))
	}
	if same, err := p.equalsWorkspace(host, c); err != nil || same {
		return Unchanged, "", err
	}
	if c.Status == diff.Deleted && (c.Kind == diff.Directory) != (host.kind == diff.Directory) {
		return Unchanged, "", nil // the host has removed the entry too, and has another one at this path
	}
	same, err := p.equalsBaseline(host, c)
	if err != nil {
		return "", "", err
	}
	if c.Status == diff.TypeChanged && host.kind == "" && (c.Kind == diff.Directory || c.OldKind == diff.Directory) {
		same = true // both sides have removed the old entry, and only the workspace has a new one
	}
	if same {
		if host.kind == diff.Directory && c.Kind != diff.Directory || c.Status == diff.Deleted && c.Kind == diff.Directory {
			return p.replaceDirectory(host, c)
		}
		return Applied, "", p.apply(host, c)
	}
	conflict = difference(host, c)
	switch p.resolve {
	case Ours:
		return Kept, conflict, nil
	case Theirs:
		if host.kind == diff.Directory || host.kind == diff.Other {
			return Conflicted, conflict, nil
		}
		return Applied, conflict, p.apply(host, c)
	case Merge:
		result, err := p.merge(host, c)
		return result, conflict, err
	}
	return Conflicted, conflict, nil
}

// onlyMode reports whether the workspace has changed only permissions that git ignores.
func (p *planner) onlyMode(c diff.Change) (bool, error) {
	if c.Status != diff.Modified || c.Before == c.After {
		return false, nil
	}
	if c.Kind != diff.File {
		return c.Kind == diff.Directory, nil
	}
	if executable(c.Before) != executable(c.After) {
		return false, nil
	}
	return p.equalInWorkspace(c)
}

// special is the result for a device, a pipe or a socket of the workspace. These are never copied,
// and never removed from the host.
func (p *planner) special(host entry, c diff.Change) (Result, string, error) {
	switch {
	case host.kind == "" && c.Status == diff.Deleted, host.kind == diff.Other && c.Status == diff.TypeChanged:
		return Unchanged, "", nil
	case host.kind == "" || c.OldKind == "":
		return Kept, "", nil
	}
	return p.unresolvable("it is a device, a pipe or a socket")
}

// unresolvable is the result for a conflict that only Ours resolves.
func (p *planner) unresolvable(conflict string) (Result, string, error) {
	if p.resolve == Ours {
		return Kept, conflict, nil
	}
	return Conflicted, conflict, nil
}

// difference describes a conflict.
func difference(host entry, c diff.Change) string {
	switch {
	case host.kind == "":
		return fmt.Sprintf("%s in the workspace, deleted on the host", c.Status)
	case c.Status == diff.Added && host.kind == diff.Other:
		return "added in the workspace, and a device, a pipe or a socket was added on the host"
	case c.Status == diff.Added:
		return fmt.Sprintf("added in the workspace, and another %s was added on the host", host.kind)
	}
	return fmt.Sprintf("%s in the workspace, and modified on the host", c.Status)
}

// replaceDirectory removes a directory if it is empty after the other removals. Files that only the
// host has stay, and so does the directory.
func (p *planner) replaceDirectory(host entry, c diff.Change) (Result, string, error) {
	names, err := namesIn(p.sides.Folder, c.Path)
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		if !p.removed[path.Join(c.Path, name)] {
			if c.Status == diff.Deleted {
				return Kept, "", nil
			}
			return p.unresolvable("the directory has other files on the host")
		}
	}
	return Applied, "", p.apply(host, c)
}

// apply adds the operations that give an entry the state of the workspace.
func (p *planner) apply(host entry, c diff.Change) error {
	if host.kind != "" && (c.Status == diff.Deleted || (host.kind == diff.Directory) != (c.Kind == diff.Directory)) {
		p.removed[c.Path] = true
		o := operation{path: c.Path, do: removeEntry}
		if host.kind != diff.Directory {
			o.expect = host.mark
		}
		p.operations = append(p.operations, o)
		if c.Status == diff.Deleted {
			return nil
		}
		host = entry{removed: true}
	}
	o := operation{path: c.Path, size: c.NewSize, link: c.NewLink, expect: host.expected()}
	switch c.Kind {
	case diff.Directory:
		if host.kind == diff.Directory {
			return nil
		}
		o.do, o.mode = makeDirectory, p.newMode(true)
	case diff.Symlink:
		o.do = writeLink
	default:
		p.write(o, host, executable(c.After))
		return nil
	}
	p.operations = append(p.operations, o)
	return nil
}

// errChanged means that a file of the workspace was modified during the pull.
var errChanged = errors.New("it was modified in the workspace during the pull")
