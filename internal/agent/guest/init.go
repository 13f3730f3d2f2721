// Package guest boots a machine and runs its agent.
//
// A virtual machine has three processes besides the user's processes:
//   - /init is PID 1. It makes the mounts and loads the kernel modules that the agent needs. Then
//     it starts the agent and reaps orphans.
//   - The agent serves the machine's link. Like /init, it runs in the initramfs, and the user's
//     processes can't see it.
//   - pyro-init is PID 1 of the namespace of the user's processes, with the environment as its
//     root.
//
// If a user kills all processes or deletes all files, the machine itself keeps running.
//
// In other machines, the driver does the work of /init, and the agent is PID 1: see [Agent].
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

// AgentName is the name of the agent's process when [Init] starts it.
const AgentName = "pyro-agent"

// Paths in the root of the agent.
const (
	program     = "/init"
	envRoot     = "/env" // the environment
	cgroups     = "/sys/fs/cgroup"
	modulesList = "/modules"
	rootDevice  = "/dev/vda"
	volumeRoot  = "/volume"
)

// Kernel parameters for init and the agent.
const (
	probeParameter = "pyro.probe" // init prints ProbeReady and powers off
	bareParameter  = "pyro.bare"  // init does not mount the root; Mount mounts it later
)

// openFiles limits the open files of each process. The soft limit is the usual one, which is low
// enough for select; processes can raise it. Go's runtime raises the limit of the agent but not the
// limit of its children.
var openFiles = syscall.Rlimit{Cur: 1 << 10, Max: 1 << 20}

// deviceTimeout limits the wait for a device after its kernel module was loaded.
const deviceTimeout = 10 * time.Second

// ProbeReady is the line that init prints if the driver only probes the machine.
const ProbeReady = "pyro-probe: ready"

// Init is PID 1 of a virtual machine. It never returns. When the agent ends, Init powers the
// machine off.
func Init() {
	if err := bootAndReap(); err != nil {
		fmt.Fprintf(os.Stderr, "pyro-init: %v\n", err)
	}
	// The console prints the error before the power is off. If the timer is wrong, a sleep might
	// never end.
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
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
	// A kernel without a list has no errors either.
	if list, err := os.ReadFile(timerList); err == nil {
		if err := checkTimer(string(list)); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", TimerWrong, err)
			return nil
		}
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

// kernelParameters returns the parameters on the kernel's command line.
func kernelParameters() ([]string, error) {
	line, err := os.ReadFile("/proc/cmdline")
	return strings.Fields(string(line)), err
}

// Timer slack in nanoseconds: how late the kernel is allowed to wake a thread. Go's runtime wakes
// up every 20 µs while it has work. On an emulated processor, that takes half of the agent's time.
// So the agent gets a large slack, and the user's processes get the kernel's default.
const (
	agentSlack = 5_000_000
	userSlack  = 50_000
)

// reapUntil reaps orphans until one child ends, and returns the status of that child. Nothing else
// in this process waits for children.
func reapUntil(child int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == nil && pid == child || err == syscall.ECHILD {
			return status
		}
	}
}

// loadModules loads kernel modules in the order of a list file. Each line of the file is the path
// of a module.
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
