package host

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/spawn"
)

// process is a process of the host.
type process struct{ *os.Process }

// Start starts a process.
func (e *execEnv) Start(path string, argv []string, attr *os.ProcAttr) (agent.Process, error) {
	started, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	return process{started}, nil
}

// PID returns the PID on the host.
func (p process) PID() int { return p.Pid }

func (p process) NamespacePID() int { return p.Pid }

// Wait waits until the process ends, and reaps it.
func (p process) Wait() (syscall.WaitStatus, error) {
	awaitEnd(p.Process)
	state, err := p.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// awaitEnd returns when a process has ended. If the kernel does not support pidfds, it returns
// immediately.
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

// reaper returns the PID of the agent's parent, which reaps the agent's orphans. It fails unless
// the parent runs the same program. This check matters because the agent is allowed to kill only
// descendants of its own reaper.
func reaper() (pid int, err error) {
	pid = os.Getppid()
	own, err1 := os.Stat("/proc/self/exe")
	parent, err2 := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	if !os.SameFile(own, parent) {
		return 0, errors.New("the agent's reaper is gone")
	}
	return pid, nil
}
