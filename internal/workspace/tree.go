package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// Tree is a connection to the files of a workspace. Paths are relative to /workspace; the empty
// path is /workspace itself. The caller must close the Tree.
type Tree struct {
	client *remote.Client
	m      *Manager
	w      store.Workspace
}

// Tree connects to the files of a workspace. It resumes a paused workspace.
func (m *Manager) Tree(ctx context.Context, id string) (*Tree, error) {
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return nil, err
	}
	return &Tree{c, m, w}, nil
}

// Close closes the connection, and cancels all operations on it.
func (t *Tree) Close() error { return t.client.Close() }

// Stat returns the entry at a path. It follows links within the workspace.
func (t *Tree) Stat(ctx context.Context, path string) (listing.Entry, error) {
	return stat(ctx, t.client, path)
}

// Lstat returns the entry at a path. It does not follow links.
func (t *Tree) Lstat(ctx context.Context, path string) (listing.Entry, error) {
	return t.client.Stat(ctx, path)
}

// List returns the entries of a folder, sorted by name.
func (t *Tree) List(ctx context.Context, path string) ([]listing.Entry, error) {
	var all []listing.Entry
	err := t.client.List(ctx, path, false, func(e listing.Entry) error {
		if e.Path != "" {
			all = append(all, e)
		} else if e.Kind != listing.Folder {
			return fault.New(fault.Precondition, "list", path, "it is not a folder")
		}
		return nil
	})
	return all, err
}

// Read copies a regular file, starting at offset.
func (t *Tree) Read(ctx context.Context, path string, offset int64, to io.Writer) error {
	return t.client.ReadFile(ctx, path, offset, 0, to)
}

// Write creates or replaces a whole file, and creates missing folders. If mode is 0, an existing
// file keeps its mode, and a new file gets mode 0644.
func (t *Tree) Write(ctx context.Context, path string, content []byte, mode fs.FileMode) error {
	began := time.Now()
	if err := t.client.WriteFile(ctx, path, mode, int64(len(content)), bytes.NewReader(content)); err != nil {
		return err
	}
	t.m.addEvent(ctx, t.w, began, store.EventWrite, store.Detail{Path: AbsolutePath(path), Files: 1, Bytes: int64(len(content))})
	return nil
}

// MakeFolder creates a folder and its missing parents. Existing folders keep their mode.
func (t *Tree) MakeFolder(ctx context.Context, path string, mode fs.FileMode) error {
	return t.change(ctx, &tar.Header{
		Typeflag: tar.TypeDir, Name: path + "/", Mode: int64(unixMode(mode)), PAXRecords: map[string]string{volume.RecordKeep: "1"},
	})
}

// Remove removes a file, a link or an empty folder.
func (t *Tree) Remove(ctx context.Context, path string) error {
	e, err := t.Lstat(ctx, path)
	if err != nil {
		return err
	}
	return t.change(ctx, deletion(path, e))
}

// RemoveAll removes the entry at a path with everything below it, either completely or not at all.
// It does nothing if there is no entry.
func (t *Tree) RemoveAll(ctx context.Context, path string) error {
	e, err := t.Lstat(ctx, path)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	deletions := []*tar.Header{deletion(path, e)}
	if e.Kind == listing.Folder {
		err = t.client.List(ctx, path, true, func(e listing.Entry) error {
			if e.Path != "" {
				deletions = append(deletions, deletion(below(path, e.Path), e))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.Reverse(deletions) // the content of a folder is deleted before the folder
	return t.change(ctx, deletions...)
}

// deletion returns the header that deletes an entry.
func deletion(path string, e listing.Entry) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path, PAXRecords: map[string]string{volume.RecordOperation: "delete"}}
	if e.Kind == listing.Folder {
		h.Typeflag, h.Name = tar.TypeDir, path+"/"
	}
	return h
}

// change applies changes without content, either all or none.
func (t *Tree) change(ctx context.Context, records ...*tar.Header) error {
	stream := streamOf(func(to *tar.Writer) error {
		for _, h := range records {
			h.Format = tar.FormatPAX
			if err := to.WriteHeader(h); err != nil {
				return err
			}
		}
		return nil
	})
	defer stream.Close()
	_, err := t.client.Change(ctx, stream)
	return err
}
