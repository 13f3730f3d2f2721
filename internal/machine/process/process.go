// Package process runs the programs that are machines: QEMU, gVisor's sentry and gVisor's gofer.
// These programs die with pyro, write no core dumps, and run on the host with user IDs that nothing
// else uses.
package process

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FirstFD is the descriptor number of the first file in exec.Cmd.ExtraFiles.
const FirstFD = 3

// If pyro is root, machines run with user IDs from this range. Linux distributions, systemd and the
// default subordinate IDs do not use it. So a program that a hostile machine controls can't access
// files or processes of the host or of other machines.
const (
	firstUID = 0x7079_0000
	uidRange = 0x1_0000
)

// In a container with few user IDs, such as 0 to 65535, the range above does not exist. Machines
// then run with user IDs from this range, or with the ID nobody.
const (
	firstLowUID = 0x8000
	lowUIDRange = 0x6000
	nobody      = 65534
)

// User returns the user and group ID for a machine's program if pyro is root. The result depends on
// the machine's ID, and on the IDs that exist in pyro's user namespace.
func User(id string) int {
	uids, _ := os.ReadFile("/proc/self/uid_map")
	gids, _ := os.ReadFile("/proc/self/gid_map")
	return userIn(id, string(uids), string(gids))
}

func userIn(id, uids, gids string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	for _, user := range []int{firstUID + int(h.Sum32()%uidRange), firstLowUID + int(h.Sum32()%lowUIDRange)} {
		if exists(user, uids) && exists(user, gids) {
			return user
		}
	}
	return nobody
}

// exists reports whether an ID exists in a user namespace with the given ID map of the kernel. The
// ID exists if the map is unknown.
func exists(id int, idMap string) bool {
	for line := range strings.Lines(idMap) {
		var first, outside, n int
		if fmt.Sscan(line, &first, &outside, &n); first <= id && id < first+n {
			return true
		}
	}
	return idMap == ""
}

// stderrSize is the number of bytes of standard error that a Process stores.
const stderrSize = 4 << 10

// Process is a running program.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stderr *Tail
	done   chan struct{}
	state  syscall.WaitStatus
}

// Start starts a program. Errors use the parameter name for the program. One thread starts the
// program and lives until the program is reaped, and the program dies with that thread. So the
// program dies with pyro, even if pyro crashes. The caller sets inherited files and namespaces.
// Start replaces cmd.Stderr, see Stderr.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, stderr: NewTail(stderrSize), done: make(chan struct{})}
	cmd.Stderr = p.stderr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	// The kernel sends the parent-death signal when the thread ends, not when the process ends.
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			runtime.UnlockOSThread()
			return
		}
		cmd.Wait()
		p.state, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
		runtime.UnlockOSThread()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	// There must be no core dump, because it would contain the machine's memory.
	unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	return p, nil
}

// PID returns the PID on the host.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has been reaped. All processes in the program's own PID namespace
// have then ended too.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill kills the program and waits until it is reaped. Idempotent.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// KillAsync kills the program without waiting. Idempotent.
func (p *Process) KillAsync() { p.cmd.Process.Kill() }

// Signal returns the signal that killed the program, or 0 if the program exited. Call it only after
// Done is closed.
func (p *Process) Signal() syscall.Signal {
	if p.state.Signaled() {
		return p.state.Signal()
	}
	return 0
}

// Success reports whether the program exited with code 0. Call it only after Done is closed.
func (p *Process) Success() bool { return p.state.Exited() && p.state.ExitStatus() == 0 }

// Stderr returns the end of the program's standard error.
func (p *Process) Stderr() string { return strings.TrimSpace(p.stderr.String()) }

// Ended describes how the program ended. Call it only after Done is closed.
func (p *Process) Ended() error {
	how := fmt.Sprintf("%s exited with code %d", p.name, p.state.ExitStatus())
	if p.state.Signaled() {
		how = fmt.Sprintf("%s was killed by signal %d (%s)", p.name, p.state.Signal(), p.state.Signal())
	}
	if said := p.Stderr(); said != "" {
		how += ": " + said
	}
	return errors.New(how)
}
