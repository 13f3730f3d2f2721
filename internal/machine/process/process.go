// Package process runs the programs that machines are: QEMU, gVisor's sentry. Such a process dies with pyro, leaves no core, and is nobody on the host.
package process

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FirstFD is the number of the first file of exec.Cmd.ExtraFiles.
const FirstFD = 3

// The user ids that machines run under when pyro is root: a range that neither distributions, nor systemd, nor the default subordinate ids use, so that a
// program that was broken out of is nobody on the host, and nobody to another machine's program.
const (
	firstUID = 0x7079_0000
	uidRange = 0x1_0000
)

// User is the user id on the host for a machine's program when pyro is root, picked by the machine's id. The group id is the same number.
func User(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return firstUID + int(h.Sum32()%uidRange)
}

// stderrKept is how much of what a program says is kept.
const stderrKept = 4 << 10

// Process is a running program.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stderr *Tail
	done   chan struct{}
	state  syscall.WaitStatus
}

// Start starts a program, which is called name in what is told of it. It dies with the thread that started it, which lives until it has been reaped: so it
// dies with pyro, however pyro ends. The caller sets what is to be inherited and its namespaces; its stderr is kept here.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, stderr: NewTail(stderrKept), done: make(chan struct{})}
	cmd.Stderr = p.stderr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	// The parent-death signal comes when that thread ends, not when the process does.
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
	// No core dump: it would hold the machine's memory.
	unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	return p, nil
}

// PID is the program's, on the host.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the program has been reaped, and with it what it had started in a PID namespace of its own.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the program at once and returns when it has been reaped. Idempotent.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Strike ends the program at once and does not wait for it. Idempotent.
func (p *Process) Strike() { p.cmd.Process.Kill() }

// Signal is what the program was killed by, 0 where it exited. It may be called once Done is closed.
func (p *Process) Signal() syscall.Signal {
	if p.state.Signaled() {
		return p.state.Signal()
	}
	return 0
}

// Success tells whether the program exited with code 0. It may be called once Done is closed.
func (p *Process) Success() bool { return p.state.Exited() && p.state.ExitStatus() == 0 }

// Said is what the program said last on its stderr.
func (p *Process) Said() string { return strings.TrimSpace(p.stderr.String()) }

// Ended says in words how the program ended. It may be called once Done is closed.
func (p *Process) Ended() error {
	how := fmt.Sprintf("%s exited with code %d", p.name, p.state.ExitStatus())
	if p.state.Signaled() {
		how = fmt.Sprintf("%s was killed by signal %d (%s)", p.name, p.state.Signal(), p.state.Signal())
	}
	if said := p.Said(); said != "" {
		how += ": " + said
	}
	return errors.New(how)
}
