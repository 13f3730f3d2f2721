package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cmd/sandboxsetup"
)

// newRoot is where the sentry's own root is put together. Every host has it, and what the host has there can't be seen any more.
const newRoot = "/tmp"

// leaveHost makes a root of its own for this process, in its own mount namespace: empty, read-only, but for a /proc that shows this process and what
// it starts.
func leaveHost() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	if err := os.Mkdir(newRoot+"/proc", 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", newRoot+"/proc", "proc", flags|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
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
