package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// AwaitHangup waits until the peer of a connection has stopped sending and reading. A TCP peer
// reports this by a reset. The caller must have read the end of the connection. AwaitHangup returns
// immediately when this process closes the connection, and when its read deadline has passed.
func AwaitHangup(conn syscall.Conn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		state := []unix.PollFd{{Fd: int32(fd)}} // poll always reports POLLHUP and POLLERR
		n, err := unix.Poll(state, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
