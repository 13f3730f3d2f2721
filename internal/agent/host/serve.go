package host

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/proctree"
	"github.com/pyro-mcp/pyro/internal/program"
)

// Reap starts this program as an agent and returns when the agent has ended. The agent gets the
// inherited socket fd as its descriptor 3.
//
// Orphans of the agent become children of this process, which reaps them. This process never reaps
// a process that the agent waits for. When the agent ends, Reap kills all remaining processes. The
// agent ends when the other end of the socket is closed. So no process outlives the owner of that
// end, even if the owner crashes.
func Reap(fd int, agentArgs []string) error {
	catchSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	agentPID, err := syscall.ForkExec(exe, append([]string{"pyro-guest"}, agentArgs...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, uintptr(fd)}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	syscall.Close(fd)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == agentPID {
			break
		}
	}
	return proctree.KillAll(os.Getpid(), func(proctree.Table, int) bool { return true })
}

// catchSignals catches the signals that a terminal or a service manager sends to the whole process
// group, and does nothing with them. The owner of the agent reacts to these signals. They are
// caught instead of ignored, because child processes inherit ignored signals.
func catchSignals() {
	program.CatchIgnored()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
}

// Serve runs an agent on the inherited socket fd until the other end is closed. volume is the
// folder of the machine's volume, or empty if there is none.
func Serve(fd int, volume, version string) error {
	catchSignals()
	file := os.NewFile(uintptr(fd), "link")
	if file == nil {
		return fmt.Errorf("descriptor %d is not open", fd)
	}
	stream, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return err
	}
	defer stream.Close()
	env, err := newExecEnv(volume)
	if err != nil {
		return err
	}
	defer env.end()
	err = agent.New(env, version).Serve(stream)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}
