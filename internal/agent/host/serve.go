package host

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
)

// Reap runs an agent on an inherited socket as a child, and ends when it does. It is the process to which orphans of what the agent started return: it
// reaps them, never a child that the agent waits for, and kills what is left when the agent has ended. The agent ends when the other end of the socket
// is closed: so all of it is gone soon after its owner, however the owner ended.
func Reap(fd int, agentArgs []string) error {
	ignoreSignals()
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
	return killAll(os.Getpid(), func(table, int) bool { return true })
}

// ignoreSignals: what a terminal or a service manager sends to the whole group is its owner's to act on. They are received rather than ignored, which
// would be inherited by what is started.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
}

// Serve serves an agent on an inherited socket until its other end is closed. volume is the folder of the machine's volume; empty: there is none.
func Serve(fd int, volume, version string) error {
	ignoreSignals()
	file := os.NewFile(uintptr(fd), "link")
	if file == nil {
		return fmt.Errorf("no file is inherited as %s", strconv.Itoa(fd))
	}
	stream, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return err
	}
	defer stream.Close()
	place, err := newPlace(volume)
	if err != nil {
		return err
	}
	err = agent.New(place, version).Serve(stream)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return errors.Join(err, place.close())
}
