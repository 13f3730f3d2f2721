package agent

import (
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/pyro-mcp/pyro/internal/pty"
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
		if pty.Unread(p.terminal) == 0 && !p.busy() {
			return
		}
	}
}

// shellInForeground reports whether the terminal's foreground group runs the same program as the
// process. This includes a fork of the shell that has not yet executed the program of its job.
func (p *process) shellInForeground() bool {
	shell := p.command.PID()
	group, known := pty.Foreground(p.terminal)
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
