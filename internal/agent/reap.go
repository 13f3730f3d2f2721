package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when a process has ended, or at once where the kernel can't tell it by a descriptor. It waits in Go's poller: a thread that waits in
// the kernel would keep the only processor from the agent's other work until Go's runtime takes it away.
func awaitEnd(p *os.Process) {
	var ended *os.File
	p.WithHandle(func(handle uintptr) {
		fd, err := unix.FcntlInt(handle, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return
		}
		unix.SetNonblock(fd, true)
		ended = os.NewFile(uintptr(fd), "process")
	})
	if ended == nil {
		return
	}
	defer ended.Close()
	raw, err := ended.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
