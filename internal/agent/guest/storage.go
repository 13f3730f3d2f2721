package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/volume"
)

// Path returns name unchanged, because the volume is mounted at /workspace.
func (e *execEnv) Path(name string) string { return name }

// Files returns the root, and the path unchanged.
func (e *execEnv) Files(name string) (root int, path string, done func(), err error) {
	root, err = e.Root()
	return root, name, func() {}, err
}

// Env sets PYRO_WORKSPACE to the path of the workspace, if the volume is mounted.
func (e *execEnv) Env() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.volume == nil {
		return nil
	}
	return []string{agent.WorkspaceVariable + "=" + agent.Workspace}
}

// Mount mounts the volume. It also mounts the root if the machine has booted without it. It mounts
// the volume first, so that a new namespace includes the volume.
func (e *execEnv) Mount(root, withVolume bool) (recovered volume.Recovered, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.quiesced {
		return recovered, agent.ErrQuiesced
	}
	if withVolume && e.volume == nil {
		if recovered, err = e.mountVolume(); err != nil {
			return recovered, fmt.Errorf("mount the volume: %w", err)
		}
	}
	if root && !e.own {
		if err := e.takeRoot(); err != nil {
			return recovered, fmt.Errorf("mount the root: %w", err)
		}
	}
	return recovered, nil
}

// takeRoot mounts the root if necessary, and writes the machine's identity to it.
func (e *execEnv) takeRoot() error {
	if !e.rooted {
		if err := mountRoot(); err != nil {
			return err
		}
		e.rooted = true
	}
	n, err := e.currentLocked()
	if err == nil {
		err = identify(int(n.root.Fd()), e.identity)
	}
	e.own = err == nil
	return err
}

// mountVolume mounts the volume, recovers its interrupted changes, and attaches it to the
// namespace.
func (e *execEnv) mountVolume() (recovered volume.Recovered, err error) {
	reach := volume.LocalFS
	if e.abilities.Disks {
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
		// Without a disk, the volume can be part of the host's file system, as under gVisor. A
		// flush might then reach only open files.
		reach = volume.PassthroughFS
		if there, err := e.volumeMounted(); err != nil || !there {
			return recovered, errors.Join(agent.ErrNoVolume, err)
		}
	}
	folder, err := os.Open(volumeRoot)
	if err == nil {
		e.volume, recovered, err = volume.Open(folder, reach)
	}
	if err == nil && e.abilities.Disks && e.ns != nil && !e.ns.dead() {
		err = e.ns.attach()
	}
	if err != nil && e.volume != nil {
		e.volume.Close(context.Background())
		e.volume = nil
	}
	if err != nil && e.abilities.Disks {
		err = errors.Join(err, unix.Unmount(volumeRoot, unix.MNT_DETACH))
	}
	return recovered, err
}

// volumeMounted reports whether the volume is mounted. Without Abilities.Disks, only the driver can
// have mounted it, before the agent started.
func (e *execEnv) volumeMounted() (bool, error) {
	if e.abilities.Disks {
		return e.volume != nil, nil
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

// volumeFiles is the only folder of the volume that processes see.
var volumeFiles = filepath.Join(volumeRoot, volume.FilesFolder)

// bindWorkspace mounts the volume's files in the environment, and unmounts the rest of the volume
// for the processes. At this point, the environment is not yet the root of the calling thread.
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

// makeWorkspace creates the mount point of the volume's files.
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

// attach mounts the volume's files in a namespace that already exists.
func (n *namespace) attach() error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, volumeFiles, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer unix.Close(tree)
	return n.thread.Do(func() error {
		if err := makeWorkspace(agent.Workspace); err != nil {
			return err
		}
		return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", unix.AT_FDCWD, agent.Workspace, unix.MOVE_MOUNT_F_EMPTY_PATH))
	})
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

// Flush flushes the volume. If root is true, it also flushes the root.
func (e *execEnv) Flush(root bool) error {
	v, err := e.Volume()
	if err == nil {
		err = v.Flush()
	}
	if err != nil || !root {
		return err
	}
	return e.onRoot(func(f *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))) })
}

// onRoot calls f with the root folder. It fails if the root is not mounted.
func (e *execEnv) onRoot(f func(*os.File) error) error {
	e.mu.Lock()
	rooted := e.rooted
	e.mu.Unlock()
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

// Freeze freezes file systems on the machine's disks. Without Abilities.Disks, it only flushes the
// volume. If one of two file systems can't be frozen, Freeze thaws the other one.
func (e *execEnv) Freeze(root, volume bool) (bool, error) {
	if !e.abilities.Disks {
		if !volume {
			return false, nil
		}
		return false, e.Flush(false)
	}
	var err error
	if root {
		err = e.onRoot(freeze)
		e.addFrozen(envRoot, err)
	}
	if volume && err == nil {
		if _, err = e.Volume(); err == nil {
			err = on(volumeRoot, freeze)
		}
		e.addFrozen(volumeRoot, err)
	}
	if err != nil {
		return false, errors.Join(err, e.Thaw())
	}
	return root || volume, nil
}

// Hold stops all processes if the agent has Abilities.Hold.
func (e *execEnv) Hold() error {
	if !e.abilities.Hold {
		return nil
	}
	return e.groups.freeze()
}

// Release resumes the processes that Hold has stopped.
func (e *execEnv) Release() error {
	if !e.abilities.Hold {
		return nil
	}
	return e.groups.thaw()
}

// addFrozen records that the file system at path is frozen, if err is nil.
func (e *execEnv) addFrozen(path string, err error) {
	if err == nil {
		e.frozen = append(e.frozen, path)
	}
}

// Thaw thaws the file systems that Freeze has frozen.
func (e *execEnv) Thaw() error {
	for len(e.frozen) > 0 {
		last := len(e.frozen) - 1
		err := on(e.frozen[last], func(f *os.File) error { return control(f, fiThaw) })
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it is no longer frozen
			return fmt.Errorf("FITHAW: %w", err)
		}
		e.frozen = e.frozen[:last]
	}
	return nil
}
