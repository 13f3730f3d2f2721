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
	readPatience = time.Second // for a program to read what was typed
	readPoll     = 5 * time.Millisecond
)

// awaitRead waits, for readPatience at most, until a shell in the foreground has read what was typed, and waits. A signal that overtakes a command would interrupt
// the prompt, and the command would run. A job leaves what was typed to the shell, so nothing is waited for once it is a program of its own.
func (p *process) awaitRead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	for p.shellInFront() {
		select { // the kernel hands input over a moment after it was written
		case <-time.After(readPoll):
		case <-ctx.Done():
			return
		}
		if unread(p.terminal) == 0 && !p.busy() {
			return
		}
	}
}

// shellInFront tells whether the program is in the foreground of its terminal, or a copy of it that has not become a job's program yet.
func (p *process) shellInFront() bool {
	shell := p.command.PID()
	group, known := foreground(p.terminal)
	if !known {
		group = youngest(shell)
	}
	if group == shell {
		return true
	}
	own, err := programOf(shell)
	other, failed := programOf(group)
	return err == nil && failed == nil && os.SameFile(own, other)
}

func programOf(pid int) (os.FileInfo, error) { return os.Stat("/proc/" + strconv.Itoa(pid) + "/exe") }

// busy tells whether a process of the session runs: the shell may be about to start a job, and a new job to take the terminal.
func (p *process) busy() bool {
	return slices.ContainsFunc(members(p.command.PID()), func(m member) bool { return m.running })
}

// unread is how many bytes were typed that could be read and were not; 0 if that can't be seen.
func unread(terminal *os.File) (n int) {
	withDescriptor(terminal, func(fd int) error {
		tty, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		defer unix.Close(int(tty))
		n, _ = unix.IoctlGetInt(int(tty), unix.TIOCINQ)
		return nil
	})
	return n
}
