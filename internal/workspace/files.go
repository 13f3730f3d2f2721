package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// MaxRead bounds how much of a file is read as text, in bytes; MaxWrite how much is written so.
const (
	MaxRead  = 16 << 20
	MaxWrite = 16 << 20
)

// Inside gives the path below a workspace for one that a user gave: absolute, beneath /workspace, or relative to it.
func Inside(name string) (string, error) {
	if strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", fault.Newf(fault.Invalid, "%q is no path", name[:min(len(name), 100)])
	}
	clean := path.Clean(path.Join(Path, name))
	if strings.HasPrefix(name, "/") {
		clean = path.Clean(name)
	}
	if clean == Path {
		return "", nil
	}
	below, ok := strings.CutPrefix(clean, Path+"/")
	if !ok {
		return "", fault.Newf(fault.Invalid, "%q is not below %s", name, Path)
	}
	return below, nil
}

// Outside is the path that users know for one below a workspace.
func Outside(below string) string { return path.Join(Path, below) }

// ListFiles gives what is at a path: of a folder what is in it, and with recursive in all folders below it.
func (m *Manager) ListFiles(ctx context.Context, id, name string, recursive bool, each func(listing.Entry) error) error {
	below, err := Inside(name)
	if err != nil {
		return err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.List(ctx, below, recursive, each)
}

// stat returns what is at a path. It follows a link at the end, within the workspace.
func stat(ctx context.Context, c *remote.Client, below string) (found listing.Entry, err error) {
	err = c.List(ctx, below, false, func(e listing.Entry) error { // the path itself comes first
		found = e
		return errEnough
	})
	if err == nil || errors.Is(err, errEnough) {
		return found, nil
	}
	return found, err
}

var errEnough = errors.New("enough has been read")

// Text is what was read of a file.
type Text struct {
	Content   []byte
	Size      int64 // of the file
	Truncated bool
}

// ReadFile reads the beginning of a text file: at most so many bytes, up to MaxRead. A file that is not text is refused.
func (m *Manager) ReadFile(ctx context.Context, id, name string, most int) (Text, error) {
	below, err := Inside(name)
	if err != nil {
		return Text{}, err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Text{}, err
	}
	defer c.Close()
	e, err := stat(ctx, c, below)
	if err != nil {
		return Text{}, err
	}
	var content bytes.Buffer
	if err := c.ReadFile(ctx, below, 0, int64(most)+1, &content); err != nil {
		return Text{}, err
	}
	t, err := textOf(content.Bytes(), most, max(e.Size, int64(content.Len())))
	if err != nil {
		return t, fault.Wrap(err, "read", Outside(below)).(*fault.Error).WithHint("%s", fault.Act("workspace_export", "pyro workspace export %s %s --output FILE", id, Outside(below)))
	}
	return t, nil
}

// textOf takes what was read of a file, one byte more than is wanted where it is longer.
func textOf(content []byte, most int, size int64) (Text, error) {
	t := Text{Content: content, Size: size}
	if len(content) > most {
		t.Content, t.Truncated = content[:most], true
		for cut := 0; cut < utf8.UTFMax && !utf8.Valid(t.Content); cut++ { // the cut may have gone through a character
			t.Content = t.Content[:len(t.Content)-1]
		}
	}
	if !utf8.Valid(t.Content) || bytes.IndexByte(t.Content, 0) >= 0 {
		return Text{}, fault.Newf(fault.Precondition, "it is not a text file: %s", kindOfBytes(t.Content))
	}
	return t, nil
}

func kindOfBytes(b []byte) string {
	if bytes.IndexByte(b, 0) >= 0 {
		return "it holds NUL bytes"
	}
	return "it is not UTF-8"
}

// WriteFile creates or replaces a file with a text, as a whole. Missing folders are made, and the mode of a file that was there is kept.
func (m *Manager) WriteFile(ctx context.Context, id, name string, content []byte) error {
	below, err := Inside(name)
	switch {
	case err != nil:
		return err
	case below == "":
		return fault.New(fault.Invalid, "write", Path, "it is a folder")
	case len(content) > MaxWrite:
		return fault.New(fault.Exhausted, "write", Outside(below), "%d bytes: at most %d", len(content), MaxWrite).WithHint("%s", fault.Act("workspace_sync_push", "pyro workspace sync push %s SOURCE", id))
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return fault.New(fault.Invalid, "write", Outside(below), "the content is not text: %s", kindOfBytes(content)).WithHint("%s", fault.Act("workspace_sync_push", "pyro workspace sync push %s SOURCE", id))
	}
	c, w, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	if err := c.WriteFile(ctx, below, fs.FileMode(0), int64(len(content)), bytes.NewReader(content)); err != nil {
		return err
	}
	m.note(ctx, w, began, store.EventWrite, store.Detail{Path: Outside(below), Files: 1, Bytes: int64(len(content))})
	return nil
}
