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

// newRoot is where a process's own root is put together. Every host has it, and what the host has there can't be seen any more.
const newRoot = "/tmp"

// mapsFile is the one file of the host that the sentry still reads: where its own memory is mapped, when it looks for a place for the code that its forks
// run. A whole /proc would show more, and may not be mounted where the host's is covered in part, as it is in most containers.
const mapsFile = "/proc/self/maps"

// leaveHost makes a root of its own for this process, in its own mount namespace: read-only, and empty but for mapsFile.
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

// mountNewRoot mounts an empty folder on newRoot, from now on in a place that the host does not see.
func mountNewRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", newRootFlags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	return nil
}

// enterFolder makes a folder of the host this process's root, in its own mount namespace. No device in it can be opened. Of the host's /proc the folder of
// this process's own files stays open, without a way out of it: by them fsgofer opens a file again.
func enterFolder(folder string) error {
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // it may be below newRoot
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
	// What the host's own mount forbids stays forbidden: the kernel insists. Programs may be run from it, by the machine.
	kept := uintptr(host.Flags) & (unix.MS_RDONLY | unix.MS_NOEXEC)
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|kept, ""); err != nil {
		return fmt.Errorf("forbid devices in the volume: %w", err)
	}
	return sandboxsetup.PivotRoot(root)
}

// keepPrivileges takes every capability but these from every thread, and the ways to get one again.
func keepPrivileges(capabilities ...int) error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var kept [2]unix.CapUserData
	for _, c := range capabilities {
		kept[c/32].Effective |= 1 << (c % 32)
		kept[c/32].Permitted |= 1 << (c % 32)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&kept[0])), 0); errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}
