package pyro

// fileListRequest and diskListRequest are requests for lists as a tool gives them.
type (
	fileListRequest struct {
		ListWorkspaceFilesRequest
		Full bool `json:"full,omitempty"`
	}
	diskListRequest struct {
		ListWorkspaceDiskRequest
		Full bool `json:"full,omitempty"`
	}
)

// fileList is a list of files as a tool gives it: in short, since a model reads all of it.
type fileList struct {
	WorkspaceID  string       `json:"workspace_id"`
	Path         string       `json:"path"`
	ArtifactType ArtifactType `json:"artifact_type"`
	Recursive    bool         `json:"recursive"`
	Count        int          `json:"count"`
	Truncated    bool         `json:"truncated"`
	LeftOut      int          `json:"left_out,omitempty"` // entries of .git
	Entries      []listedFile `json:"entries"`
}

// listedFile is one entry: of a path and two more fields, or in full.
type listedFile struct {
	Path string `json:"path"`           // absolute
	Kind string `json:"kind,omitempty"` // in short: f, d for a folder, l for a link, o for a device, a pipe or a socket
	Size int64  `json:"size,omitempty"` // in short, of a file

	*FileEntry // in full
}

var kindLetters = map[ArtifactType]string{FileArtifact: "f", DirectoryArtifact: "d", SymlinkArtifact: "l", OtherArtifact: "o"}

// newFileList is a list as a tool gives it, cut to what a model should be given at once. Of nil it is
// nil.
func newFileList(f *WorkspaceFiles, full bool) *fileList {
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
		if e.ArtifactType == FileArtifact {
			short.Size = e.SizeBytes
		}
		l.Entries = append(l.Entries, short)
	}
	if n := fitting(l.Entries); n < len(l.Entries) {
		l.Entries, l.Truncated = l.Entries[:n], true
	}
	return l
}
