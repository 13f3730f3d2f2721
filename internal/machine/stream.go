package machine

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// NewStream makes a stream for a driver: near is pyro's end, far is inherited by the process that runs the machine. It has no name, so nobody else can
// reach it. The caller closes both.
func NewStream() (near net.Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "near")
	defer ours.Close()
	far = os.NewFile(uintptr(fds[1]), "far")
	if near, err = net.FileConn(ours); err != nil {
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}
