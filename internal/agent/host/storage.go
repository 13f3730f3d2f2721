package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// workspace is where the files of the volume are; empty: nowhere.
func (p *Place) workspace() string {
	if p.folder == "" {
		return ""
	}
	return filepath.Join(p.folder, volume.FilesFolder)
}

// Path has /workspace, and what is below it, stand for what is in the volume.
func (p *Place) Path(name string) string {
	if p.folder == "" {
		return name
	}
	if below, ok := strings.CutPrefix(name, agent.Workspace); ok && (below == "" || below[0] == '/') {
		return p.workspace() + below
	}
	return name
}

// Env tells processes where their workspace is.
func (p *Place) Env() []string {
	if p.folder == "" {
		return nil
	}
	return []string{agent.WorkspaceVariable + "=" + p.workspace()}
}

// Mount opens the volume. The root is the host's.
func (p *Place) Mount(_, withVolume bool) (volume.Recovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.quiesced:
		return volume.Recovered{}, agent.ErrQuiesced
	case !withVolume || p.volume != nil:
		return volume.Recovered{}, nil
	case p.folder == "":
		return volume.Recovered{}, agent.ErrNoVolume
	}
	folder, err := os.OpenFile(p.folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return volume.Recovered{}, fmt.Errorf("open the volume: %w", err)
	}
	v, recovered, err := volume.Open(folder, volume.Whole)
	if err != nil {
		return recovered, err
	}
	p.volume = v
	return recovered, nil
}

// Volume is the volume.
func (p *Place) Volume() (*volume.Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.quiesced:
		return nil, agent.ErrQuiesced
	case p.volume == nil:
		return nil, agent.ErrNoVolume
	}
	return p.volume, nil
}

// Flush flushes the volume. What else is on the host is not the agent's to flush.
func (p *Place) Flush(bool) error {
	v, err := p.Volume()
	if err != nil {
		return err
	}
	return v.Flush()
}

// Freeze only flushes: the file system is the host's.
func (p *Place) Freeze(_, volume bool) (bool, error) {
	if !volume {
		return false, nil
	}
	return false, p.Flush(false)
}

// Hold and Release do nothing.
func (p *Place) Hold() error    { return nil }
func (p *Place) Release() error { return nil }

// Thaw has nothing to do.
func (p *Place) Thaw() error { return nil }

// Quiesce kills what was started and flushes the volume.
func (p *Place) Quiesce(ctx context.Context) error {
	p.mu.Lock()
	p.quiesced = true
	v := p.volume
	p.mu.Unlock()
	// Once the thread has come to this, nothing more is started.
	if err := p.thread.Do(func() error { return nil }); err != nil {
		return err
	}
	top, err := reaper()
	if err != nil {
		return err
	}
	if err := killAll(top, func(_ table, pid int) bool { return pid != os.Getpid() }); err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	return v.Close(ctx)
}
