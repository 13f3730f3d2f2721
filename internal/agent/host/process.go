package host

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/spawn"
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

// awaitEnd returns when a process has ended, or at once where the kernel can't tell it by a descriptor.
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
	spawn.AwaitEnd(ended)
}
