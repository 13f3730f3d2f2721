package workspace

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/runes"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// MaxRead is the largest number of bytes that callers of ReadFile can request. MaxWrite is the
// largest content that WriteFile accepts, in bytes.
const (
	MaxRead  = 16 << 20
	MaxWrite = 16 << 20
)

// Inside returns the path relative to /workspace for a path from the user. The user's path is
// absolute and below /workspace, or relative to it.
func Inside(name string) (string, error) {
	name, err := fromUser(name)
	if err != nil {
		return "", err
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

// fromUser returns the path that a text from the user stands for; see [listing.Unescape].
func fromUser(text string) (string, error) {
	name, err := listing.Unescape(text)
	if err != nil {
		return "", fault.Newf(fault.Invalid, "%.100q is not a path: %w", text, err)
	}
	if strings.ContainsRune(name, 0) || len(name) > listing.MaxPath {
		return "", fault.Newf(fault.Invalid, "%.100q is not a path", text)
	}
	return name, nil
}

// AbsolutePath returns the absolute path for a path relative to /workspace, as a text for the user;
// see [listing.Escape].
func AbsolutePath(below string) string { return listing.Escape(path.Join(Path, below)) }

// Entry describes a file in a workspace.
type Entry = listing.Entry

// ListFiles lists a path. For a folder it lists the direct content, or everything below it if
// recursive is true.
func (m *Manager) ListFiles(ctx context.Context, id, name string, recursive bool, each func(Entry) error) error {
	below, err := Inside(name)
	if err != nil {
		return err
	}
	r, err := m.reader(ctx, id, below, recursive)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.list(ctx, below, recursive, each); err != nil {
		return err
	}
	return r.intact(ctx)
}

// stat returns the entry at a path. If the path is a link, stat follows it within the workspace.
func stat(ctx context.Context, c *remote.Client, below string) (found Entry, err error) {
	err = c.List(ctx, below, false, func(e Entry) error { // the first entry is the path itself
		found = e
		return errEnough
	})
	if err == nil || errors.Is(err, errEnough) {
		return found, nil
	}
	return found, notListed(err)
}

// notListed changes the operation in an error of a list that only searched for a path.
func notListed(err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Op == "list" {
		f.Op = "find"
	}
	return err
}

var errEnough = errors.New("enough has been read")

// Text is the content of a file.
type Text struct {
	Content   []byte
	Size      int64 // size of the file
	Truncated bool
}

// ReadFile reads the start of a text file. The parameter most is the maximum number of bytes. It
// returns an error if the file is not text.
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
		return t, fault.Wrap(err, "read", AbsolutePath(below)).(*fault.Error).WithHint("%s", fault.Act("workspace_export", "pyro workspace export %s %s --output FILE", id, AbsolutePath(below)))
	}
	return t, nil
}

// textOf checks that content is text. most is the largest number of bytes that it returns. If the
// file is longer, content must contain at least one byte more than that.
func textOf(content []byte, most int, size int64) (Text, error) {
	t := Text{Content: content, Size: size}
	if len(content) > most {
		t.Content, t.Truncated = runes.Head(content[:most]), true
	}
	if !utf8.Valid(t.Content) || bytes.IndexByte(t.Content, 0) >= 0 {
		return Text{}, fault.Newf(fault.Precondition, "it is not a text file: %s", kindOfBytes(t.Content))
	}
	return t, nil
}

func kindOfBytes(b []byte) string {
	if bytes.IndexByte(b, 0) >= 0 {
		return "it contains NUL bytes"
	}
	return "it is not UTF-8"
}

// WriteFile atomically creates or replaces a text file. It creates missing folders. If the file
// exists, its mode is kept.
func (m *Manager) WriteFile(ctx context.Context, id, name string, content []byte) error {
	below, err := Inside(name)
	switch {
	case err != nil:
		return err
	case below == "":
		return fault.New(fault.Invalid, "write", Path, "it is a folder")
	case len(content) > MaxWrite:
		return fault.New(fault.Exhausted, "write", AbsolutePath(below), "%d bytes: at most %d", len(content), MaxWrite).WithHint("%s", fault.Act("workspace_sync_push", "pyro workspace sync push %s SOURCE", id))
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return fault.New(fault.Invalid, "write", AbsolutePath(below), "the content is not text: %s", kindOfBytes(content)).WithHint("%s", fault.Act("workspace_sync_push", "pyro workspace sync push %s SOURCE", id))
	}
	t, err := m.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Write(ctx, below, content, 0)
}
