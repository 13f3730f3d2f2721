package pyro

import (
	"bytes"
	"context"
	"io"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/diff"
	"github.com/pyro-mcp/pyro/internal/patch"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// ApplyWorkspacePatchRequest contains the patch to apply.
type ApplyWorkspacePatchRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Patch       string `json:"patch"` // unified, from git diff or diff -u; paths are below /workspace
}

// AppliedPatch describes the changes by a patch.
type AppliedPatch struct {
	WorkspaceID string        `json:"workspace_id"`
	Changed     bool          `json:"changed"`
	Summary     PatchSummary  `json:"summary"`
	Entries     []PatchedFile `json:"entries"` // files in the order of the patch
}

// PatchSummary counts the changes by a patch.
type PatchSummary = patch.Summary

// PatchedFile is one file that a patch changed.
type PatchedFile = patch.File

// PatchConflict is the position of a hunk that does not apply, and the cause. An error of kind
// Precondition wraps it; get it with errors.As.
type PatchConflict = patch.Conflict

// ApplyWorkspacePatch applies a unified patch to the files of a running workspace, completely or
// not at all. It checks the whole patch before it changes anything.
func (p *Pyro) ApplyWorkspacePatch(ctx context.Context, req ApplyWorkspacePatchRequest) (*AppliedPatch, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("patch", req.Patch); err != nil {
		return nil, err
	}
	plan, err := p.workspaces.ApplyPatch(ctx, req.WorkspaceID, []byte(req.Patch))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	for i := range plan.Files {
		f := &plan.Files[i]
		f.Path, f.OldPath = listing.Escape(f.Path), listing.Escape(f.OldPath)
	}
	r := &AppliedPatch{req.WorkspaceID, len(plan.Operations) > 0, plan.Summary, plan.Files}
	if r.Entries == nil {
		r.Entries = []PatchedFile{}
	}
	return r, nil
}

// DiffWorkspaceRequest contains the parameters of [Pyro.DiffWorkspace].
type DiffWorkspaceRequest struct {
	WorkspaceID    string   `json:"workspace_id"`
	Paths          []string `json:"paths,omitempty"`           // paths below /workspace; compare only these paths and everything below them. Default: all files.
	IncludeIgnored bool     `json:"include_ignored,omitempty"` // include files that are omitted by default
	Stat           bool     `json:"stat,omitempty"`            // omit the patch

	Progress ProgressFunc `json:"-"`
}

// WorkspaceDiff contains the differences between /workspace and its baseline.
type WorkspaceDiff struct {
	WorkspaceID string        `json:"workspace_id"`
	Changed     bool          `json:"changed"`
	Summary     DiffSummary   `json:"summary"`
	Entries     []ChangedFile `json:"entries"`         // sorted by path
	Patch       string        `json:"patch"`           // in git's format. It turns the baseline into the current files, as far as git can represent them.
	Truncated   bool          `json:"patch_truncated"` // Patch is only the first part of the patch
	Cut         bool          `json:"entries_truncated"`
}

// DiffSummary counts changes.
type DiffSummary = diff.Summary

// ChangedFile is one path that differs.
type ChangedFile = diff.Change

// DiffWorkspace compares the files of a running workspace with the baseline, which is the state
// after creation. It omits folders named __pycache__ and new files that a .gitignore in the
// workspace ignores. The summary counts the omitted files. If a requested path exists neither in
// the workspace nor in the baseline, the error has the kind NotFound.
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
	req.Progress.adapt().Phase("comparing files", req.WorkspaceID)
	d, err := p.workspaces.Diff(ctx, req.WorkspaceID, patch, o)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	escapeChanges(d.Entries)
	return &WorkspaceDiff{req.WorkspaceID, len(d.Entries) > 0, d.Summary, d.Entries, text.String(), d.Truncated, d.EntriesTruncated}, nil
}

// escapeChanges escapes the names in changes that are not UTF-8.
func escapeChanges(changes []ChangedFile) {
	for i := range changes {
		for _, name := range []*string{&changes[i].Path, &changes[i].OldLink, &changes[i].NewLink} {
			*name = listing.Escape(*name)
		}
	}
}
