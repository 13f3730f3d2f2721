package agent

import (
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readPatience = time.Second // how long a program can take to read its input
	readPoll     = 5 * time.Millisecond
)

// awaitRead waits at most readPatience until a foreground shell has read its input and is idle. A
// signal before that would interrupt the prompt, and the shell would then run the typed command.
// awaitRead does not wait for foreground programs other than the shell.
func (p *process) awaitRead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	for p.shellInForeground() {
		select { // the kernel delivers input with a delay, so wait before each check
		case <-time.After(readPoll):
		case <-ctx.Done():
			return
		}
		if unread(p.terminal) == 0 && !p.busy() {
			return
		}
	}
}

// shellInForeground reports whether the terminal's foreground group runs the same program as the
// process. This includes a fork of the shell that has not yet executed the program of its job.
func (p *process) shellInForeground() bool {
	shell := p.command.PID()
	group, known := foreground(p.terminal)
	if !known {
		group = newestGroup(shell)
	}
	if group == shell {
		return true
	}
	own, err := programOf(shell)
	other, failed := programOf(group)
	return err == nil && failed == nil && os.SameFile(own, other)
}

func programOf(pid int) (os.FileInfo, error) { return os.Stat("/proc/" + strconv.Itoa(pid) + "/exe") }

// busy reports whether a process of the session is running. In this case, the shell might be about
// to start a job, or a new job might be about to become the foreground group.
func (p *process) busy() bool {
	return slices.ContainsFunc(members(p.command.PID()), func(m member) bool { return m.running })
}

// unread returns how many bytes of input a program could read now, or 0 if that is unknown.
func unread(terminal *os.File) (n int) {
	asProgram(terminal, func(tty int) (err error) {
		n, err = unix.IoctlGetInt(tty, unix.TIOCINQ)
		return err
	})
	return n
}

// asProgram calls f with a descriptor of the end of the terminal that programs use.
func asProgram(terminal *os.File, f func(tty int) error) error {
	return withDescriptor(terminal, func(fd int) error {
		tty, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		defer unix.Close(int(tty))
		return f(int(tty))
	})
}
