package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// Path changes nothing: the volume is mounted where it is seen.
func (p *place) Path(name string) string { return name }

// Env tells processes where their workspace is.
func (p *place) Env() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.volume == nil {
		return nil
	}
	return []string{agent.WorkspaceVariable + "=" + agent.Workspace}
}

// Mount mounts the volume, and the root where the machine was started without one. The volume comes first: a room that is made finds it.
func (p *place) Mount(root, withVolume bool) (recovered volume.Recovered, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiesced {
		return recovered, agent.ErrQuiesced
	}
	if withVolume && p.volume == nil {
		if recovered, err = p.mountVolume(); err != nil {
			return recovered, fmt.Errorf("mount the volume: %w", err)
		}
	}
	if root && !p.own {
		if err := p.takeRoot(); err != nil {
			return recovered, fmt.Errorf("mount the root: %w", err)
		}
	}
	return recovered, nil
}

// takeRoot mounts the root and makes it the machine's own.
func (p *place) takeRoot() error {
	if !p.rooted {
		if err := mountRoot(); err != nil {
			return err
		}
		p.rooted = true
	}
	r, err := p.nowLocked()
	if err == nil {
		err = identify(int(r.root.Fd()), p.identity)
	}
	p.own = err == nil
	return err
}

// mountVolume mounts the volume, brings it in order, and has the room see it.
func (p *place) mountVolume() (recovered volume.Recovered, err error) {
	reach := volume.Whole
	if p.ownKernel {
		device, err := findDisk(volumeSerial)
		if err != nil {
			return recovered, err
		}
		if device == "" {
			return recovered, fmt.Errorf("%w: there is no disk for it", agent.ErrNoVolume)
		}
		if err := mountDisk(device, volumeRoot); err != nil {
			return recovered, err
		}
	} else {
		// The host's file system is behind it, of which gVisor flushes what it has open.
		reach = volume.Single
		if there, err := p.volumeMounted(); err != nil || !there {
			return recovered, errors.Join(agent.ErrNoVolume, err)
		}
	}
	folder, err := os.Open(volumeRoot)
	if err == nil {
		p.volume, recovered, err = volume.Open(folder, reach)
	}
	if err == nil && p.ownKernel && p.room != nil && !p.room.over() {
		err = p.room.attach()
	}
	if err != nil && p.volume != nil {
		p.volume.Close(context.Background())
		p.volume = nil
	}
	if err != nil && p.ownKernel {
		err = errors.Join(err, unix.Unmount(volumeRoot, unix.MNT_DETACH))
	}
	return recovered, err
}

// volumeMounted tells whether the volume is mounted. That of a sandbox is from the start.
func (p *place) volumeMounted() (bool, error) {
	if p.ownKernel {
		return p.volume != nil, nil
	}
	var root, volume unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return false, &os.PathError{Op: "stat", Path: "/", Err: err}
	}
	switch err := unix.Stat(volumeRoot, &volume); {
	case err == unix.ENOENT:
		return false, nil
	case err != nil:
		return false, &os.PathError{Op: "stat", Path: volumeRoot, Err: err}
	}
	return volume.Dev != root.Dev, nil
}

// Of the volume processes see one folder.
var volumeFiles = filepath.Join(volumeRoot, volume.FilesFolder)

// bindWorkspace puts the volume's files into the environment, before it becomes the calling thread's root, and hides the rest of the volume.
func bindWorkspace() error {
	if err := os.MkdirAll(volumeFiles, 0o755); err != nil {
		return err
	}
	at := envRoot + agent.Workspace
	if err := makeWorkspace(at); err != nil {
		return err
	}
	if err := unix.Mount(volumeFiles, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the volume's files: %w", err)
	}
	if err := unix.Unmount(volumeRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hide the volume: %w", err)
	}
	return nil
}

// makeWorkspace makes the folder over which the volume's files are seen.
func makeWorkspace(at string) error {
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(at)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "mount", Path: agent.Workspace, Err: unix.ENOTDIR}
	}
	return err
}

// attach has a room that is there already see the volume's files.
func (r *room) attach() error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, volumeFiles, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer unix.Close(tree)
	return r.thread.Do(func() error {
		if err := makeWorkspace(agent.Workspace); err != nil {
			return err
		}
		return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", unix.AT_FDCWD, agent.Workspace, unix.MOVE_MOUNT_F_EMPTY_PATH))
	})
}

// Volume is the volume.
func (p *place) Volume() (*volume.Volume, error) {
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

// Flush flushes the volume, and the root.
func (p *place) Flush(root bool) error {
	v, err := p.Volume()
	if err == nil {
		err = v.Flush()
	}
	if err != nil || !root {
		return err
	}
	return p.onRoot(func(f *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))) })
}

// onRoot calls f with the root's folder, where the root is mounted.
func (p *place) onRoot(f func(*os.File) error) error {
	p.mu.Lock()
	rooted := p.rooted
	p.mu.Unlock()
	if !rooted {
		return agent.ErrNoRoot
	}
	return on(envRoot, f)
}

func on(path string, f func(*os.File) error) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return f(folder)
}

// FIFREEZE and FITHAW of linux/fs.h, _IOWR('X', 119, int) and _IOWR('X', 120, int).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

func freeze(f *os.File) error { return os.NewSyscallError("FIFREEZE", control(f, fiFreeze)) }

// Freeze freezes the file systems of a kernel of the machine's own. Thaw thaws what it has frozen, also where it fails.
func (p *place) Freeze(root, volume bool) (bool, error) {
	if !p.ownKernel {
		if !volume {
			return false, nil
		}
		return false, p.Flush(false)
	}
	var err error
	if root {
		err = p.onRoot(freeze)
		p.note(envRoot, err)
	}
	if volume && err == nil {
		if _, err = p.Volume(); err == nil {
			err = on(volumeRoot, freeze)
		}
		p.note(volumeRoot, err)
	}
	if err != nil {
		return false, errors.Join(err, p.Thaw())
	}
	return root || volume, nil
}

// Hold has no process of a kernel of the machine's own run.
func (p *place) Hold() error {
	if !p.ownKernel {
		return nil
	}
	return p.groups.freeze()
}

// Release has them run again.
func (p *place) Release() error {
	if !p.ownKernel {
		return nil
	}
	return p.groups.thaw()
}

// note notes what is frozen now.
func (p *place) note(path string, err error) {
	if err == nil {
		p.frozen = append(p.frozen, path)
	}
}

// Thaw lets writing go on.
func (p *place) Thaw() error {
	for len(p.frozen) > 0 {
		last := len(p.frozen) - 1
		err := on(p.frozen[last], func(f *os.File) error { return control(f, fiThaw) })
		if err != nil && !errors.Is(err, unix.EINVAL) { // that one is not frozen any more
			return fmt.Errorf("FITHAW: %w", err)
		}
		p.frozen = p.frozen[:last]
	}
	return nil
}

// closePatience bounds the wait for calls that use the volume. One that only reads it does not keep it from being read-only.
const closePatience = 8 * time.Second
