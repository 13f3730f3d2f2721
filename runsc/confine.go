package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cmd/sandboxsetup"
)

// newRoot is where the sentry's own root is put together. Every host has it, and what the host has there can't be seen any more.
const newRoot = "/tmp"

// mapsFile is the one file of the host that the sentry still reads: where its own memory is mapped, when it looks for a place for the code that its forks
// run. A whole /proc would show more, and may not be mounted where the host's is covered in part, as it is in most containers.
const mapsFile = "/proc/self/maps"

// leaveHost makes a root of its own for this process, in its own mount namespace: read-only, and empty but for mapsFile.
func leaveHost() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
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
	if err := unix.Mount("", newRoot, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return sandboxsetup.PivotRoot(newRoot)
}

// dropPrivileges takes every capability from every thread, and the ways to get one again.
func dropPrivileges() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}
