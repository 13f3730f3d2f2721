package pyro

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Limits for text files, in bytes.
const (
	DefaultMaxBytes = 65536              // the default for reads
	MaxReadBytes    = workspace.MaxRead  // the maximum for reads
	MaxWriteBytes   = workspace.MaxWrite // the maximum for writes
)

// ArtifactType is the type of a file system object.
type ArtifactType string

// The types.
const (
	FileArtifact      ArtifactType = "file"
	DirectoryArtifact ArtifactType = "directory"
	SymlinkArtifact   ArtifactType = "symlink"
	OtherArtifact     ArtifactType = "other" // a device, a pipe or a socket
)

// FileEntry is an entry in a list of files.
type FileEntry struct {
	Path         string       `json:"path"` // absolute; if it is not UTF-8, "file://" and the path with escapes, which requests accept too
	ArtifactType ArtifactType `json:"artifact_type"`
	SizeBytes    int64        `json:"size_bytes"` // size of a file
	Mode         string       `json:"mode"`       // permission, set-id and sticky bits, in octal
	UID          int          `json:"uid"`
	GID          int          `json:"gid"`
	ModifiedAt   time.Time    `json:"modified_at"`
	LinkTarget   string       `json:"link_target,omitempty"` // target of a symbolic link
}

// ListWorkspaceFilesRequest contains the parameters of [Pyro.ListWorkspaceFiles].
type ListWorkspaceFilesRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path,omitempty"` // a path below /workspace, absolute or relative to /workspace; default WorkspacePath
	Recursive   bool   `json:"recursive,omitempty"`
	IncludeGit  bool   `json:"include_git,omitempty"` // if Recursive is set, also list .git folders and their contents

	// Each, if set, is called for each entry. The result then contains no entries, so that long
	// lists need little memory. The parameter list is the result, but its fields Count, LeftOut and
	// Truncated are not final yet. If Each returns an error, the call returns that error.
	Each func(list *WorkspaceFiles, e FileEntry) error `json:"-"`
}

// WorkspaceFiles is a list of files.
type WorkspaceFiles struct {
	WorkspaceID  string       `json:"workspace_id"`
	Path         string       `json:"path"`
	ArtifactType ArtifactType `json:"artifact_type"` // the type of Path
	Recursive    bool         `json:"recursive"`
	Count        int          `json:"count"`
	Truncated    bool         `json:"truncated"`          // there are more entries than MaxListedFiles.
	LeftOut      int          `json:"left_out,omitempty"` // number of omitted entries of .git folders; see IncludeGit. Count does not include them.
	Entries      []FileEntry  `json:"entries"`            // the contents of the folder at Path; if Path is not a folder, only Path itself
}

// add appends an entry to the list or, if the function each is set, calls each. It returns false if
// the list is full.
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

// leaveOut reports whether to omit an entry because it belongs to a .git folder, and counts such
// entries. The argument path is relative to the path of the list.
func (l *WorkspaceFiles) leaveOut(path string, includeGit bool) bool {
	if !l.Recursive || includeGit || !slices.Contains(strings.Split(path, "/"), ".git") {
		return false
	}
	l.LeftOut++
	return true
}

// MaxListedFiles is the largest number of entries in a list.
const MaxListedFiles = 1_000_000

// ListWorkspaceFiles lists a folder of a running workspace. If the path is not a folder, the list
// contains only the object at the path.
func (p *Pyro) ListWorkspaceFiles(ctx context.Context, req ListWorkspaceFilesRequest) (*WorkspaceFiles, error) {
	if err := p.named(ctx, &req.WorkspaceID); err != nil {
		return nil, err
	}
	inside, err := workspace.Inside(req.Path)
	if err != nil {
		return nil, err
	}
	r := &WorkspaceFiles{WorkspaceID: req.WorkspaceID, Path: workspace.AbsolutePath(inside), Recursive: req.Recursive, Entries: []FileEntry{}}
	err = p.workspaces.ListFiles(ctx, req.WorkspaceID, req.Path, req.Recursive, func(e workspace.Entry) error {
		entry := newFileEntry(&e, path.Join(WorkspacePath, inside))
		if e.Path == "" {
			r.ArtifactType = entry.ArtifactType
			if entry.ArtifactType == DirectoryArtifact {
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
		return nil, causeOf(ctx, err)
	}
	return r, nil
}

// ReadWorkspaceFileRequest contains the parameters of [Pyro.ReadWorkspaceFile].
type ReadWorkspaceFileRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	MaxBytes    int    `json:"max_bytes,omitempty"` // 1 to MaxReadBytes; default DefaultMaxBytes
}

// FileContent is the content of a text file.
type FileContent struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	Content     string `json:"content"`
	SizeBytes   int64  `json:"size_bytes"` // size of the whole file
	MaxBytes    int    `json:"max_bytes"`
	Truncated   bool   `json:"truncated"` // Content is only the start of the file
}

// ReadWorkspaceFile reads the start of a text file in a running workspace. If the file is not text,
// it fails with kind Precondition. Use ExportWorkspace for such files.
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
		return nil, causeOf(ctx, err)
	}
	return &FileContent{req.WorkspaceID, workspace.AbsolutePath(inside), string(t.Content), t.Size, req.MaxBytes, t.Truncated}, nil
}

// WriteWorkspaceFileRequest contains the parameters of [Pyro.WriteWorkspaceFile].
type WriteWorkspaceFileRequest struct {
	WorkspaceID string `json:"workspace_id"`
	Path        string `json:"path"`
	Text        string `json:"text"` // UTF-8, at most MaxWriteBytes
}

// WrittenFile describes a file that was written.
type WrittenFile struct {
	WorkspaceID  string `json:"workspace_id"`
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
}

// WriteWorkspaceFile atomically creates or replaces a text file in a running workspace. It creates
// missing folders. If the file exists, its mode does not change.
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
		return nil, causeOf(ctx, err)
	}
	return &WrittenFile{req.WorkspaceID, workspace.AbsolutePath(inside), len(req.Text)}, nil
}
