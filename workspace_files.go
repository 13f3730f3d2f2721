package pyro

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// The bounds of reading and writing files as text.
const (
	DefaultMaxBytes = 65536              // of what is read where a request says nothing
	MaxReadBytes    = workspace.MaxRead  // of what can be read so
	MaxWriteBytes   = workspace.MaxWrite // of what can be written so
)

// ArtifactType is what a path leads to.
type ArtifactType string

// The types.
const (
	FileArtifact      ArtifactType = "file"
	DirectoryArtifact ArtifactType = "directory"
	SymlinkArtifact   ArtifactType = "symlink"
	OtherArtifact     ArtifactType = "other" // a device, a pipe or a socket
)

// FileEntry is one thing in a list of files.
type FileEntry struct {
	Path         string       `json:"path"` // absolute
	ArtifactType ArtifactType `json:"artifact_type"`
	SizeBytes    int64        `json:"size_bytes"`            // of a file
	Mode         string       `json:"mode"`                  // permission, set-id and sticky bits, in octal
	UID          int          `json:"uid"`                   //
	GID          int          `json:"gid"`                   //
	ModifiedAt   time.Time    `json:"modified_at"`           //
	LinkTarget   string       `json:"link_target,omitempty"` // of a symbolic link
}

// ListWorkspaceFilesRequest says what to list.
type ListWorkspaceFilesRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path,omitempty"` // below /workspace, absolute or relative to it; default WorkspacePath
	Recursive   bool   `json:"recursive,omitempty"`
	IncludeGit  bool   `json:"include_git,omitempty"` // with Recursive: .git and what is in it too

	// Each, where there is one, is given the entries one after the other, and the result has none of them: what is listed need not be held. It is given the
	// list too, with what is known before its end, which is all but Count and Truncated. An error of it ends the list, and is that of the call.
	Each func(list *WorkspaceFiles, e FileEntry) error `json:"-"`
}

// WorkspaceFiles is a list of files.
type WorkspaceFiles struct {
	WorkspaceID  string       `json:"workspace_id"`
	Path         string       `json:"path"`
	ArtifactType ArtifactType `json:"artifact_type"` // of path
	Recursive    bool         `json:"recursive"`
	Count        int          `json:"count"`
	Truncated    bool         `json:"truncated"`          // there are more than MaxListedFiles
	LeftOut      int          `json:"left_out,omitempty"` // entries of .git, see IncludeGit; Count does not have them
	Entries      []FileEntry  `json:"entries"`            // of a folder what is in it, of anything else that itself
}

// add adds an entry, or gives it away. It is false where there are as many as there can be.
func (l *WorkspaceFiles) add(e FileEntry, each func(*WorkspaceFiles, FileEntry) error) (bool, error) {
	if l.Count == MaxListedFiles {
		l.Truncated = true
		return false, nil
	}
	l.Count++
	if each != nil {
		return true, each(l, e)
	}
	l.Entries = append(l.Entries, e)
	return true, nil
}

// leaveOut counts an entry that a recursive list leaves out: .git, and what is in it. It is false for
// any other. The path is relative to that of the list.
func (l *WorkspaceFiles) leaveOut(path string, includeGit bool) bool {
	if !l.Recursive || includeGit || !slices.Contains(strings.Split(path, "/"), ".git") {
		return false
	}
	l.LeftOut++
	return true
}

// MaxListedFiles is how many entries a list has at most.
const MaxListedFiles = 1_000_000

// ListWorkspaceFiles tells what is at a path of a workspace that runs, and of a folder what is in it.
func (p *Pyro) ListWorkspaceFiles(ctx context.Context, req ListWorkspaceFilesRequest) (*WorkspaceFiles, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	inside, err := workspace.Inside(req.Path)
	if err != nil {
		return nil, err
	}
	r := &WorkspaceFiles{WorkspaceID: req.WorkspaceID, Path: workspace.Outside(inside), Recursive: req.Recursive, Entries: []FileEntry{}}
	err = p.workspaces.ListFiles(ctx, req.WorkspaceID, req.Path, req.Recursive, func(e listing.Entry) error {
		entry := newFileEntry(&e, workspace.Outside(inside))
		if e.Path == "" {
			r.ArtifactType = entry.ArtifactType
			if e.Kind == listing.Folder {
				return nil
			}
		}
		if r.leaveOut(e.Path, req.IncludeGit) {
			return nil
		}
		_, err := r.add(entry, req.Each)
		return err
	})
	if err != nil {
		return nil, because(ctx, err)
	}
	return r, nil
}

// ReadWorkspaceFileRequest says what to read.
type ReadWorkspaceFileRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	MaxBytes    int    `json:"max_bytes,omitempty"` // 1 to MaxReadBytes; default DefaultMaxBytes
}

// FileContent is what was read of a text file.
type FileContent struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	Content     string `json:"content"`
	SizeBytes   int64  `json:"size_bytes"` // of the file
	MaxBytes    int    `json:"max_bytes"`
	Truncated   bool   `json:"truncated"` // the file goes on after Content
}

// ReadWorkspaceFile reads a text file of a workspace that runs, from its beginning. Precondition for a file that is no text: see ExportWorkspace.
func (p *Pyro) ReadWorkspaceFile(ctx context.Context, req ReadWorkspaceFileRequest) (*FileContent, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("path", req.Path); err != nil {
		return nil, err
	}
	if err := completeNumber("max_bytes", &req.MaxBytes, DefaultMaxBytes, 1, MaxReadBytes); err != nil {
		return nil, err
	}
	inside, err := workspace.Inside(req.Path)
	if err != nil {
		return nil, err
	}
	t, err := p.workspaces.ReadFile(ctx, req.WorkspaceID, req.Path, req.MaxBytes)
	if err != nil {
		return nil, because(ctx, err)
	}
	return &FileContent{req.WorkspaceID, workspace.Outside(inside), string(t.Content), t.Size, req.MaxBytes, t.Truncated}, nil
}

// WriteWorkspaceFileRequest says what to write.
type WriteWorkspaceFileRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	Text        string `json:"text"` // UTF-8, at most MaxWriteBytes
}

// WrittenFile tells what was written.
type WrittenFile struct {
	WorkspaceID  string `json:"workspace_id"`
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
}

// WriteWorkspaceFile creates or replaces a text file of a workspace that runs: the file is the old one or the new one, never something between. Missing folders
// are made; a file that was there keeps its mode.
func (p *Pyro) WriteWorkspaceFile(ctx context.Context, req WriteWorkspaceFileRequest) (*WrittenFile, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	if err := required("path", req.Path); err != nil {
		return nil, err
	}
	inside, err := workspace.Inside(req.Path)
	if err != nil {
		return nil, err
	}
	if err := p.workspaces.WriteFile(ctx, req.WorkspaceID, req.Path, []byte(req.Text)); err != nil {
		return nil, because(ctx, err)
	}
	return &WrittenFile{req.WorkspaceID, workspace.Outside(inside), len(req.Text)}, nil
}
