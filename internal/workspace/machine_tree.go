package workspace

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// TreeOptions are options for unpacking a tree. Unpacked counts the written entries.
type (
	TreeOptions = remote.TreeOptions
	Unpacked    = remote.Unpacked
)

// Anywhere returns the absolute path in a machine for a path from the user. The user's path is
// absolute, or relative to /workspace. A slash at its end is kept, because it makes a difference
// for links.
func Anywhere(name string) (string, error) {
	name, err := fromUser(name)
	if err != nil {
		return "", err
	}
	clean := path.Clean(name)
	if !strings.HasPrefix(name, "/") {
		clean = path.Join(Path, name)
	}
	if clean != "/" && (strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.")) {
		clean += "/"
	}
	return clean, nil
}

// PutTree unpacks a tar archive below a folder of a workspace's machine. The path is absolute, or
// relative to /workspace. PutTree creates the folder if it is missing, and merges existing folders.
// It is not atomic, but a file gets its name only when it is complete. See client.PutTree.
func (m *Manager) PutTree(ctx context.Context, id, path string, archive io.Reader, o TreeOptions) (Unpacked, error) {
	at, err := Anywhere(path)
	if err != nil {
		return Unpacked{}, err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return Unpacked{}, err
	}
	defer c.Close()
	return c.PutMachineTree(ctx, at, o, archive)
}

// GetTree writes a file or a folder of a workspace's machine as a tar archive. The path is
// absolute, or relative to /workspace. All names in the archive begin with the parameter as. If it
// is empty, they begin with the last element of the path. See client.GetTree.
func (m *Manager) GetTree(ctx context.Context, id, path, as string, to io.Writer) error {
	at, err := Anywhere(path)
	if err != nil {
		return err
	}
	c, _, err := m.connect(ctx, store.KindWorkspace, id)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.GetMachineTree(ctx, at, as, to)
}
