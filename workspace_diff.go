package pyro

import (
	"bytes"
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/patch"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// ApplyWorkspacePatchRequest says what patch to apply.
type ApplyWorkspacePatchRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Patch       string `json:"patch"` // unified, as of git diff or diff -u; paths are below /workspace
}

// AppliedPatch tells what a patch did.
type AppliedPatch struct {
	WorkspaceID string        `json:"workspace_id"`
	Changed     bool          `json:"changed"`
	Summary     PatchSummary  `json:"summary"`
	Entries     []PatchedFile `json:"entries"` // in the order of the patch
}

// PatchSummary counts what a patch did.
type PatchSummary = patch.Summary

// PatchedFile is one file that a patch changed.
type PatchedFile = patch.File

// PatchConflict is how an error of kind Precondition tells where a patch does not fit: errors.As finds it.
type PatchConflict = patch.Conflict

// ApplyWorkspacePatch applies a unified patch to the files of a workspace that runs: all of it or nothing. It is checked whole before anything changes.
func (p *Pyro) ApplyWorkspacePatch(ctx context.Context, req ApplyWorkspacePatchRequest) (*AppliedPatch, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("patch", req.Patch); err != nil {
		return nil, err
	}
	plan, err := p.workspaces.ApplyPatch(ctx, req.WorkspaceID, []byte(req.Patch))
	if err != nil {
		return nil, because(ctx, err)
	}
	r := &AppliedPatch{req.WorkspaceID, len(plan.Operations) > 0, plan.Summary, plan.Files}
	if r.Entries == nil {
		r.Entries = []PatchedFile{}
	}
	return r, nil
}

// DiffWorkspaceRequest says what to compare with the baseline.
type DiffWorkspaceRequest struct {
	WorkspaceID    string   `json:"workspace_id"`
	Paths          []string `json:"paths,omitempty"`           // below /workspace; only these, with all that is below them. Default: everything
	IncludeIgnored bool     `json:"include_ignored,omitempty"` // also what the summary would count as ignored
	Stat           bool     `json:"stat,omitempty"`            // without the patch
}

// WorkspaceDiff tells how /workspace differs from the baseline.
type WorkspaceDiff struct {
	WorkspaceID string        `json:"workspace_id"`
	Changed     bool          `json:"changed"`
	Summary     DiffSummary   `json:"summary"`
	Entries     []ChangedFile `json:"entries"`           // by path
	Patch       string        `json:"patch"`             // in git's format: git apply of it on the baseline gives what is there now, as far as git knows trees
	Truncated   bool          `json:"patch_truncated"`   // there is more than fits into a result
	Cut         bool          `json:"entries_truncated"` //
}

// DiffSummary counts changes.
type DiffSummary = diff.Summary

// ChangedFile is one path that differs.
type ChangedFile = diff.Change

// DiffWorkspace compares the files of a workspace that runs with its baseline, the state in which it
// was created. It leaves out folders named __pycache__ and new files that a .gitignore of the
// workspace ignores, and counts them in the summary. NotFound: one of the paths is in neither.
func (p *Pyro) DiffWorkspace(ctx context.Context, req DiffWorkspaceRequest) (*WorkspaceDiff, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	o := diff.Options{IncludeIgnored: req.IncludeIgnored}
	for _, name := range req.Paths {
		inside, err := workspace.Inside(name)
		if err != nil {
			return nil, err
		}
		o.Paths = append(o.Paths, inside)
	}
	var text bytes.Buffer
	var patch io.Writer = &text
	if req.Stat {
		patch = nil
	}
	d, err := p.workspaces.Diff(ctx, req.WorkspaceID, patch, o)
	if err != nil {
		return nil, because(ctx, err)
	}
	return &WorkspaceDiff{req.WorkspaceID, len(d.Entries) > 0, d.Summary, d.Entries, text.String(), d.Truncated, d.EntriesTruncated}, nil
}
