package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/proctree"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// workspace returns the folder with the volume's files, or the empty string if there is no volume.
func (e *execEnv) workspace() string {
	if e.folder == "" {
		return ""
	}
	return filepath.Join(e.folder, volume.FilesFolder)
}

// Path maps /workspace, and paths below it, to the folder with the volume's files.
func (e *execEnv) Path(name string) string {
	if e.folder == "" {
		return name
	}
	if below, ok := strings.CutPrefix(name, agent.Workspace); ok && (below == "" || below[0] == '/') {
		return e.workspace() + below
	}
	return name
}

// Files returns the folder with the volume's files, and the path below it.
func (e *execEnv) Files(name string) (root int, path string, done func(), err error) {
	below, ok := strings.CutPrefix(filepath.Clean(name), agent.Workspace)
	if !ok || below != "" && below[0] != '/' {
		return -1, "", nil, agent.ErrHostPath
	}
	v, err := e.Volume()
	if err != nil {
		return -1, "", nil, err
	}
	if done, err = v.Use(); err != nil {
		return -1, "", nil, err
	}
	if below == "" || strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") {
		below += "/"
	}
	return v.Files(), below, done, nil
}

// Env sets PYRO_WORKSPACE to the path of the workspace, if there is a volume.
func (e *execEnv) Env() []string {
	if e.folder == "" {
		return nil
	}
	return []string{agent.WorkspaceVariable + "=" + e.workspace()}
}

// Mount opens the volume. The root is the host's root and is always mounted.
func (e *execEnv) Mount(_, withVolume bool) (volume.Recovered, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.quiesced:
		return volume.Recovered{}, agent.ErrQuiesced
	case !withVolume || e.volume != nil:
		return volume.Recovered{}, nil
	case e.folder == "":
		return volume.Recovered{}, agent.ErrNoVolume
	}
	folder, err := os.OpenFile(e.folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return volume.Recovered{}, fmt.Errorf("open the volume: %w", err)
	}
	v, recovered, err := volume.Open(folder, volume.LocalFS)
	if err != nil {
		return recovered, err
	}
	e.volume = v
	return recovered, nil
}

// Volume returns the mounted volume.
func (e *execEnv) Volume() (*volume.Volume, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.quiesced:
		return nil, agent.ErrQuiesced
	case e.volume == nil:
		return nil, agent.ErrNoVolume
	}
	return e.volume, nil
}

// Flush flushes only the volume, because all other files belong to the host.
func (e *execEnv) Flush(bool) error {
	v, err := e.Volume()
	if err != nil {
		return err
	}
	return v.Flush()
}

// Freeze only flushes the volume, because the host uses the same file system.
func (e *execEnv) Freeze(_, volume bool) (bool, error) {
	if !volume {
		return false, nil
	}
	return false, e.Flush(false)
}

// Hold and Release do nothing.
func (e *execEnv) Hold() error    { return nil }
func (e *execEnv) Release() error { return nil }

// Thaw does nothing, because Freeze freezes nothing.
func (e *execEnv) Thaw() error { return nil }

// Quiesce kills the agent's processes and flushes the volume.
func (e *execEnv) Quiesce(ctx context.Context) error {
	e.mu.Lock()
	e.quiesced = true
	v := e.volume
	e.mu.Unlock()
	// This call waits in line on the thread. When it runs, earlier starts have finished, and later
	// ones fail.
	if err := e.thread.Do(func() error { return nil }); err != nil {
		return err
	}
	top, err := reaper()
	if err != nil {
		return err
	}
	if err := proctree.KillAll(top, func(_ proctree.Table, pid int) bool { return pid != os.Getpid() }); err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	return v.Close(ctx)
}
