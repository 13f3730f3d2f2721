package operations

import "github.com/pyro-mcp/pyro"

// Requests for lists of files, with an argument that only tools have.
type (
	fileListRequest struct {
		pyro.ListWorkspaceFilesRequest
		Full bool `json:"full,omitempty"`
	}
	diskListRequest struct {
		pyro.ListWorkspaceDiskRequest
		Full bool `json:"full,omitempty"`
	}
)

// fileList is a list of files for a model. A model reads every entry, so entries are short by
// default.
type fileList struct {
	WorkspaceID  string            `json:"workspace_id"`
	Path         string            `json:"path"`
	ArtifactType pyro.ArtifactType `json:"artifact_type"`
	Recursive    bool              `json:"recursive"`
	Count        int               `json:"count"`
	Truncated    bool              `json:"truncated"`
	LeftOut      int               `json:"left_out,omitempty"` // number of omitted entries of .git folders
	Entries      []listedFile      `json:"entries"`
}

// listedFile is an entry of a fileList. The short form contains the path, the kind and the size.
// The full form contains the path and all fields of the FileEntry.
type listedFile struct {
	Path string `json:"path"`           // absolute
	Kind string `json:"kind,omitempty"` // short form: f for file, d for folder, l for link, o for other
	Size int64  `json:"size,omitempty"` // short form, for files

	*pyro.FileEntry // full form
}

var kindLetters = map[pyro.ArtifactType]string{pyro.FileArtifact: "f", pyro.DirectoryArtifact: "d", pyro.SymlinkArtifact: "l", pyro.OtherArtifact: "o"}

// newFileList converts f to a list for a model, with at most agentEntries entries. If f is nil, it
// returns nil.
func newFileList(f *pyro.WorkspaceFiles, full bool) *fileList {
	if f == nil {
		return nil
	}
	l := &fileList{
		WorkspaceID: f.WorkspaceID, Path: f.Path, ArtifactType: f.ArtifactType, Recursive: f.Recursive, Count: f.Count, Truncated: f.Truncated, LeftOut: f.LeftOut,
		Entries: make([]listedFile, 0, min(len(f.Entries), agentEntries+1)),
	}
	for i := range f.Entries[:min(len(f.Entries), agentEntries+1)] {
		e := &f.Entries[i]
		if full {
			l.Entries = append(l.Entries, listedFile{Path: e.Path, FileEntry: e})
			continue
		}
		short := listedFile{Path: e.Path, Kind: kindLetters[e.ArtifactType]}
		if e.ArtifactType == pyro.FileArtifact {
			short.Size = e.SizeBytes
		}
		l.Entries = append(l.Entries, short)
	}
	if n := fitting(l.Entries); n < len(l.Entries) {
		l.Entries, l.Truncated = l.Entries[:n], true
	}
	return l
}
