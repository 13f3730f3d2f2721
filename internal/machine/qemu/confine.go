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

// confinement is one way to confine QEMU, in addition to its system call filter.
type confinement struct {
	attr  *syscall.SysProcAttr
	args  []string
	empty bool // the mount namespace is empty
}

// confinements returns the ways to confine QEMU, the strictest first. The parameter rootFD is the
// descriptor of a deleted folder.
//
// The strictest way gives QEMU its own user, PID, network, mount and IPC namespaces. QEMU has only
// the capability to change its root to the folder. It inherits all files that it needs. If the host
// allows it, the mount namespace contains only an empty folder. If the host forbids namespaces and
// pyro is root, QEMU at least runs as an unprivileged user. In all cases QEMU dies with pyro and
// has its system call filter.
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

// inherited returns the path of an inherited file in the QEMU process.
func inherited(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// vanishedFolder opens a folder and deletes it. So the folder is empty, and nobody can make files
// in it.
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
