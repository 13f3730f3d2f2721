package machine

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewStream creates a socket pair for a driver. The socket near is pyro's end. The process that
// runs the machine inherits the socket far. The sockets have no name, so no other process can
// connect. The caller closes both.
func NewStream() (near net.Conn, far *os.File, err error) { return pair(unix.SOCK_STREAM) }

// linkBuffer is the maximum size of the frames that are in flight in one direction of a link, in
// bytes. The host's own limit is usually a tenth of that, but it does not apply to root.
const linkBuffer = 4 << 20

// NewLink creates a socket pair, like [NewStream], for a machine's link to a network. Each packet
// is an Ethernet frame.
func NewLink() (near net.Conn, far *os.File, err error) {
	if near, far, err = pair(unix.SOCK_SEQPACKET); err != nil {
		return nil, nil, err
	}
	for _, end := range []syscall.Conn{near.(*net.UnixConn), far} {
		raw, err := end.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, linkBuffer) != nil {
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, linkBuffer)
				}
			})
		}
		if err != nil {
			near.Close()
			far.Close()
			return nil, nil, err
		}
	}
	return near, far, nil
}

func pair(kind int) (near net.Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
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
