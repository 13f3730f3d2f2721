package guest

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/link"
)

// The descriptors of a sandbox's link: two pipes. They have no name that anybody else could open, and after a restore they are the same two descriptors, with
// other pipes behind them: the next session is opened on those.
const (
	linkFrom = 3
	linkTo   = 4
)

// sandboxMounts is what a sandbox does not mount by itself.
var sandboxMounts = []mount{
	{"cgroup2", cgroups, "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
}

// Sandbox is the agent's part in a machine whose kernel is a program of the host's, gVisor's. The agent is PID 1 there: it finds the environment mounted, its link
// inherited, loopback up, and the clock and the random numbers to be the host's. The user's processes are below a keeper, as in every machine.
func Sandbox(version string) error {
	if err := mountAll(sandboxMounts); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &openFiles); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	place, err := newPlace(false, true)
	if err != nil {
		return err
	}
	go place.now() // while the first session is opened; who needs it waits for it, and is told if it can't be had
	for _, fd := range []int{linkFrom, linkTo} {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return agent.New(place, version).Serve(link.NewPipes(os.NewFile(linkFrom, "link"), os.NewFile(linkTo, "link")))
}
