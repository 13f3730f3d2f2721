// Package spawn starts processes with the fewest system calls: os.StartProcess makes some seventy more, most of them to put each signal's handler back, and a
// sandbox or an emulated machine takes up to a millisecond for that. Here one flag of clone3 does it, and the child tells by shared memory why it could not
// start, instead of by a pipe.
//
// It needs Linux 5.7, or gVisor: what machines have. Elsewhere use os.StartProcess.
package spawn

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process that was started. It must be waited for.
type Process struct {
	pid    int
	inside int
	handle *os.File // its pidfd, in Go's poller
}

// OpenFiles are the limits of each process on its open files. The Go runtime has raised those of the process itself.
type OpenFiles = syscall.Rlimit

// Start starts a program from the calling thread, in whose namespaces and root it is. Of attr it knows Dir, Env and Files, none of which may have a number
// below their count, and of Sys Setsid, Setctty, Credential, CgroupFD and Cloneflags; anything else must be zero. The error is the kernel's, as of
// os.StartProcess.
func Start(path string, argv []string, attr *os.ProcAttr, limits OpenFiles) (*Process, error) {
	f, err := newFork(path, argv, attr, limits)
	if err != nil {
		return nil, err
	}
	syscall.ForkLock.Lock()
	pid, pidfd, errno := f.run()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(attr)
	if errno != 0 {
		if pid > 0 { // it was there, and has ended
			unix.Wait4(pid, nil, 0, nil)
			unix.Close(pidfd)
		}
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: errno}
	}
	unix.FcntlInt(uintptr(pidfd), unix.F_SETFL, unix.O_NONBLOCK) // so that the poller takes it; it has no other flags to keep
	return &Process{pid: pid, inside: int(f.inside), handle: os.NewFile(uintptr(pidfd), "process")}, nil
}

// PID is the process's number in the PID namespace of who started it.
func (p *Process) PID() int { return p.pid }

// Inside is its number in its own PID namespace.
func (p *Process) Inside() int { return p.inside }

// Join has the calling thread's further children be in a namespace of the process's.
func (p *Process) Join(kind int) error {
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = os.NewSyscallError("setns", unix.Setns(int(fd), kind)) })
	return errors.Join(err, failed)
}

// Wait waits for the end of the process and reaps it. It must be called once.
func (p *Process) Wait() (syscall.WaitStatus, error) {
	defer p.handle.Close()
	if err := AwaitEnd(p.handle); err != nil {
		return 0, err
	}
	var status unix.WaitStatus
	for {
		pid, err := unix.Wait4(p.pid, &status, 0, nil)
		if err != unix.EINTR {
			if err == nil && pid != p.pid {
				err = errors.New("another process was reaped")
			}
			return syscall.WaitStatus(status), os.NewSyscallError("wait4", err)
		}
	}
}

// AwaitEnd returns when a process has ended, given its pidfd, which must not be blocking. It waits in Go's poller: a thread that waits in the kernel would keep
// the only processor from other work until Go's runtime takes it away.
func AwaitEnd(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	return nil
}
