package host

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// process is a process of the host.
type process struct{ *os.Process }

// Start starts a process.
func (p *Place) Start(path string, argv []string, attr *os.ProcAttr) (agent.Process, error) {
	started, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	return process{started}, nil
}

// PID is its number.
func (p process) PID() int { return p.Pid }

// Wait waits for its end.
func (p process) Wait() (syscall.WaitStatus, error) {
	awaitEnd(p.Process)
	state, err := p.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

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
