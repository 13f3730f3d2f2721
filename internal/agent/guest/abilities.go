package guest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent"
	"github.com/pyro-mcp/pyro/internal/agent/link"
)

// AgentArgument is the first argument of the program if it runs as the agent of a prepared machine.
// A prepared machine is one that its driver has set up. The other arguments are the words of the
// agent's [Abilities].
const AgentArgument = "agent"

// Abilities are tasks that the agent does in some machines. In other machines, the driver does
// these tasks, or they are left out. Abilities do not depend on each other, except that Hold needs
// Cgroups.
type Abilities struct {
	// Clock: Renew sets the clock, the random pool and the boot ID. Without Clock, they are already
	// correct.
	Clock bool
	// Disks: the agent mounts the root and the volume from virtio disks and can freeze them.
	// Without Disks, the driver mounts the root at /env and a volume at /volume before the agent
	// starts.
	Disks bool
	// Cgroups: each exec gets a cgroup (version 2), and all cgroups together have the limits of the
	// machine. Without Cgroups, the agent finds the processes of an exec in /proc, and sets no
	// limits.
	Cgroups bool
	// Hold: the agent can freeze the cgroup of all processes. Without Hold, the driver stops them;
	// see Thawer in internal/machine.
	Hold bool
	// Devices: the agent makes the nodes of /dev. Without Devices, the agent binds them from the
	// /dev that the driver has prepared.
	Devices bool
	// Network: the agent enables the loopback interface, and Renew configures eth0. Without
	// Network, the driver does both.
	Network bool
	// OOMScore: the agent protects itself from the kernel's OOM killer. Without OOMScore, there is
	// no OOM killer, or the agent is not allowed to change its OOM score.
	OOMScore bool
	// MaxProcesses limits the processes and threads of a machine with Cgroups. 0 selects a default.
	MaxProcesses int64
}

// switches maps the words of the abilities that are on or off to their fields.
func (a *Abilities) switches() map[string]*bool {
	return map[string]*bool{
		"clock": &a.Clock, "disks": &a.Disks, "cgroups": &a.Cgroups, "hold": &a.Hold, "devices": &a.Devices, "network": &a.Network,
		"oom-score": &a.OOMScore,
	}
}

// maxProcessesWord is the word of MaxProcesses. "=" and a number follow it.
const maxProcessesWord = "max-processes"

// ParseAbilities parses words such as "cgroups" or "max-processes=100".
func ParseAbilities(words []string) (a Abilities, err error) {
	switches := a.switches()
	for _, word := range words {
		if on := switches[word]; on != nil {
			*on = true
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		if a.MaxProcesses, err = strconv.ParseInt(value, 10, 64); name != maxProcessesWord || err != nil || a.MaxProcesses < 1 {
			return Abilities{}, fmt.Errorf("an agent has no ability %q", word)
		}
	}
	if a.Hold && !a.Cgroups {
		return Abilities{}, fmt.Errorf("the ability %q needs %q", "hold", "cgroups")
	}
	return a, nil
}

// ofVirtualMachine are the abilities of an agent that [Init] has started.
var ofVirtualMachine = Abilities{Clock: true, Disks: true, Cgroups: true, Hold: true, Devices: true, Network: true, OOMScore: true}

// Descriptors of the link in a prepared machine. They are two pipes, or the same socket twice. No
// process can open them, because they have no name. After a restore, gVisor connects the same
// numbers to other pipes, and the next session uses these pipes.
const (
	linkFrom = 3
	linkTo   = 4
)

// cgroupMount is a mount that a prepared machine lacks.
var cgroupMount = []mount{
	{"cgroup2", cgroups, "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
}

// Agent runs the agent of a prepared machine until the link ends. words are the agent's abilities.
// docs/add-a-driver.md says what the driver must prepare.
func Agent(version string, words []string) error {
	abilities, err := ParseAbilities(words)
	if err != nil {
		return err
	}
	if abilities.Cgroups {
		if err := mountAll(cgroupMount); err != nil {
			return err
		}
	}
	if abilities.Network {
		if err := loopbackUp(); err != nil {
			return err
		}
	}
	if err := limitOpenFiles(); err != nil {
		return err
	}
	env, err := newExecEnv(abilities, !abilities.Disks)
	if err != nil {
		return err
	}
	go env.current() // create the namespace while the first session opens; later calls report an error
	for _, fd := range []int{linkFrom, linkTo} {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return agent.New(env, version).Serve(link.NewPipes(os.NewFile(linkFrom, "link"), os.NewFile(linkTo, "link")))
}

// limitOpenFiles applies openFiles to this process. If the agent is not allowed to raise the hard
// limit, that limit stays.
func limitOpenFiles() error {
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &openFiles)
	if err == syscall.EPERM {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		openFiles.Max = min(openFiles.Max, now.Max)
		openFiles.Cur = min(openFiles.Cur, openFiles.Max)
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &openFiles)
	}
	return os.NewSyscallError("setrlimit", err)
}
