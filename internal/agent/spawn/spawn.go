// Package spawn starts processes with few system calls. os.StartProcess makes about seventy more
// calls, mostly to reset signal handlers. These calls take up to a millisecond in a sandbox or an
// emulated machine. In this package, one flag of clone3 resets the handlers. The child reports
// errors through shared memory instead of a pipe.
//
// The package needs Linux 5.7 or gVisor, which all machines have. Elsewhere use os.StartProcess.
package spawn

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a started process. Callers must call Wait exactly once.
type Process struct {
	pid    int
	nsPID  int
	handle *os.File // pidfd, registered with Go's poller
}

// OpenFiles is the limit of open files for a process. Callers must set it, because the Go runtime
// has raised the limit of its own process.
type OpenFiles = syscall.Rlimit

// Start starts a program in the namespaces and root of the calling thread. It supports these fields
// of attr:
//   - Dir, Env and Files. No file can have a descriptor that is lower than the number of files.
//   - Sys, with Setsid, Setctty, Credential, UseCgroupFD, CgroupFD and Cloneflags.
//
// All other fields must be zero. Errors are the same as from os.StartProcess.
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
		if pid > 0 { // the child existed and has exited
			unix.Wait4(pid, nil, 0, nil)
			unix.Close(pidfd)
		}
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: errno}
	}
	unix.FcntlInt(uintptr(pidfd), unix.F_SETFL, unix.O_NONBLOCK) // Go's poller needs O_NONBLOCK; a pidfd has no other flags
	return &Process{pid: pid, nsPID: int(f.nsPID), handle: os.NewFile(uintptr(pidfd), "process")}, nil
}

// PID returns the PID in the namespace of the parent.
func (p *Process) PID() int { return p.pid }

// NamespacePID returns the PID in the process's own PID namespace.
func (p *Process) NamespacePID() int { return p.nsPID }

// Join moves the calling thread into a namespace of the process. If kind is a PID namespace, this
// affects only later children of the thread.
func (p *Process) Join(kind int) error {
	raw, err := p.handle.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = os.NewSyscallError("setns", unix.Setns(int(fd), kind)) })
	return errors.Join(err, failed)
}

// Wait waits until the process exits, and reaps it. It must be called exactly once.
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

// AwaitEnd waits in Go's poller until a process has exited. The pidfd of the process must be
// non-blocking. A thread that waits in the kernel would instead occupy the only processor until the
// Go runtime takes the processor back.
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
