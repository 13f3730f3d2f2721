// Package guest is the boot of a machine, and the place of its agent.
//
// Three processes run in a virtual machine, beside the user's. init is PID 1: it makes the machine ready, starts the agent and from then on only reaps; it
// lives in the initramfs. The agent serves the machine's link, lives there too, and outside of what its processes can see. The keeper is PID 1 of the
// namespace in which the user's processes run, with the environment as their root. So what is killed or deleted inside costs the user their processes and
// files, and not the machine. In a sandbox there is nothing to boot, and the agent is PID 1 itself.
package guest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AgentName is what the program is called where it is the agent.
const AgentName = "pyro-agent"

// SandboxArgument is what the program's first argument is where it is the agent of a sandbox.
const SandboxArgument = "sandbox"

// Where things are, seen from the initramfs.
const (
	program     = "/init"
	envRoot     = "/env" // the environment
	cgroups     = "/sys/fs/cgroup"
	modulesList = "/modules"
	rootDevice  = "/dev/vda"
	volumeRoot  = "/volume" // what outlives the machine
)

// The kernel parameters that init and the agent know.
const (
	probeParameter = "pyro.probe" // init says that it is there, and powers off
	bareParameter  = "pyro.bare"  // no root is mounted before the agent is asked to
)

// openFiles are the limits of every process on its open files: by default few enough for select, as elsewhere, and as many as it asks for. The Go runtime
// takes the higher one for the agent itself, and gives its children the lower.
var openFiles = syscall.Rlimit{Cur: 1 << 10, Max: 1 << 20}

// devicePatience bounds the wait for a device whose driver has been loaded.
const devicePatience = 10 * time.Second

// ProbeReady is what init says before it powers off, where it is only to be proved.
const ProbeReady = "pyro-probe: ready"

// Init is PID 1. It never returns: a machine without an agent is ended.
func Init() {
	if err := bootAndReap(); err != nil {
		fmt.Fprintf(os.Stderr, "pyro-init: %v\n", err)
	}
	// The console is read by now; a moment lets it out.
	time.Sleep(50 * time.Millisecond)
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

func bootAndReap() error {
	if err := mountAll(initMounts); err != nil {
		return err
	}
	parameters, err := kernelParameters()
	if err != nil {
		return err
	}
	if slices.Contains(parameters, probeParameter) {
		fmt.Println(ProbeReady)
		return nil
	}
	if err := loadModules(modulesList); err != nil {
		return err
	}
	if !slices.Contains(parameters, bareParameter) {
		if err := mountRoot(); err != nil {
			return err
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &openFiles); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, agentSlack, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	agent, err := syscall.ForkExec(program, []string{AgentName}, &syscall.ProcAttr{
		Env: []string{"GOGC=400", "GOMEMLIMIT=64MiB"}, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	status := reapUntil(agent)
	return fmt.Errorf("the agent ended: %v", status)
}

// kernelParameters are those that the machine was booted with.
func kernelParameters() ([]string, error) {
	line, err := os.ReadFile("/proc/cmdline")
	return strings.Fields(string(line)), err
}

// How much later than asked for the kernel may wake a thread, in nanoseconds. Go's runtime looks after itself every 20 µs while there is something to do,
// which takes an emulated processor half of the time that it has for the agent: the agent is given slack, and what it starts is given back what the kernel
// gives by default.
const (
	agentSlack = 5_000_000
	userSlack  = 50_000
)

// reapUntil reaps orphans until a child of this process ends, and gives its status. Nothing else in this process waits for children.
func reapUntil(child int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == nil && pid == child || err == syscall.ECHILD {
			return status
		}
	}
}

// loadModules loads the kernel modules that a list names, a path a line, in its order.
func loadModules(list string) error {
	b, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for path := range strings.Lines(string(b)) {
		path = strings.TrimSpace(path)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("load %s: %w", path, err)
		}
	}
	return nil
}
