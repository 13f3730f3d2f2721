package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cmd/sandboxsetup"
	"gvisor.dev/gvisor/runsc/fsgofer"
)

// newRoot is the folder at which a process mounts its own root. Every host has this folder. The
// mount hides the folder's content only in this mount namespace.
const newRoot = "/tmp"

// mapsFile is the only file of the host that the sentry reads after the start. The sentry finds
// free addresses there for the code of its child processes. A whole /proc would show more. If parts
// of the host's /proc are covered, as in most containers, the kernel forbids another mount of
// /proc.
const mapsFile = "/proc/self/maps"

// leaveHost moves this process to its own root in a new mount namespace. The root is read-only and
// contains only mapsFile.
func leaveHost() error {
	if err := mountNewRoot(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(newRoot+mapsFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(newRoot+mapsFile, nil, 0o444); err != nil {
		return err
	}
	if err := unix.Mount(mapsFile, newRoot+mapsFile, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", mapsFile, err)
	}
	if err := unix.Mount("", newRoot, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|newRootFlags, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return sandboxsetup.PivotRoot(newRoot)
}

const newRootFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountNewRoot mounts an empty folder at newRoot. The host does not see the mount.
func mountNewRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", newRootFlags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	return nil
}

// enterFolder makes a folder of the host the root of this process, in its own mount namespace.
// Devices in the folder can't be opened. The host's folder /proc/self/fd stays open, because
// fsgofer reopens files through it. No path leads from there to other files.
func enterFolder(folder string) error {
	// Opened before the mount, because the folder can be below newRoot.
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: folder, Err: err}
	}
	defer unix.Close(fd)
	if err := mountNewRoot(); err != nil {
		return err
	}
	const root, ownFiles = newRoot + "/root", newRoot + "/files"
	for _, path := range []string{root, ownFiles} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("/proc/self/fd", ownFiles, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /proc/self/fd: %w", err)
	}
	if err := fsgofer.OpenProcSelfFD(ownFiles); err != nil {
		return err
	}
	if err := unix.Unmount(ownFiles, unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the volume %s: %w", folder, err)
	}
	var host unix.Statfs_t
	if err := unix.Statfs(root, &host); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	// An unprivileged mount can't drop the restrictions of the host's mount. So the machine can run
	// programs from the folder, unless the host's mount forbids that.
	mountFlags := uintptr(host.Flags) & (unix.MS_RDONLY | unix.MS_NOEXEC)
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|mountFlags, ""); err != nil {
		return fmt.Errorf("forbid devices in the volume: %w", err)
	}
	return sandboxsetup.PivotRoot(root)
}

// keepPrivileges drops all capabilities except the given ones. It applies to all threads, and the
// dropped capabilities can't be regained.
func keepPrivileges(capabilities ...int) error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	for _, c := range capabilities {
		sets[c/32].Effective |= 1 << (c % 32)
		sets[c/32].Permitted |= 1 << (c % 32)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0); errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}
