package machine

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewStream makes a stream for a driver: near is pyro's end, far is inherited by the process that runs the machine. It has no name, so nobody else can
// reach it. The caller closes both.
func NewStream() (near net.Conn, far *os.File, err error) { return pair(unix.SOCK_STREAM) }

// linkBuffer is how many bytes of frames may be on their way in one direction of a link. The host bounds it too, as a rule at a tenth of that; root passes that.
const linkBuffer = 4 << 20

// NewLink makes the link of a machine to a network, as [NewStream] makes a stream: each packet in it is an Ethernet frame.
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
