package qemu

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

const nobody = 65534

// confinement is one way to confine QEMU, beside its own system call filter.
type confinement struct {
	attr  *syscall.SysProcAttr
	args  []string
	empty bool // its mount namespace is emptied
}

// confinements gives the ways to confine a machine's QEMU, the tightest first. rootFD is the number under which QEMU inherits a folder that no longer
// exists.
//
// Best is a user namespace of its own, with its own process, network, mount and IPC namespaces, in which QEMU has the one capability to change its root to that
// folder. What it needs it has inherited open. Its mount namespace holds nothing but an empty folder, if the host allows that. Where the host forbids that, QEMU at least is an unprivileged user when pyro is root. In every case it
// dies with pyro and has its system call filter.
func confinements(accel machine.Isolation, id string, rootFD int) []confinement {
	users := [][2]int{{os.Getuid(), os.Getgid()}}
	if os.Getuid() == 0 {
		own := process.User(id)
		users = [][2]int{{own, own}, {nobody, nobody}}
		if group, err := kvmGroup(); accel == machine.KVM && err == nil && group != 0 {
			users = [][2]int{{own, group}, {nobody, group}}
		}
	}
	var ways []confinement
	for _, u := range users {
		args := []string{"-chroot", inherited(rootFD)}
		ways = append(ways,
			confinement{process.Confined(u[0], u[1], unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN), args, true},
			confinement{process.Confined(u[0], u[1], unix.CAP_SYS_CHROOT), args, false})
	}
	plain := &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		plain.Credential = &syscall.Credential{Uid: uint32(users[0][0]), Gid: uint32(users[0][1])}
	}
	return append(ways, confinement{attr: plain})
}

// inherited is the path by which QEMU opens a file that it has inherited under a number.
func inherited(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// vanishedFolder is an open folder that has already been removed: nothing can be found or made in it.
func vanishedFolder(in string) (*os.File, error) {
	path, err := os.MkdirTemp(in, "root-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(path)
	if err := os.Chmod(path, 0o555); err != nil {
		return nil, err
	}
	return os.Open(path)
}
