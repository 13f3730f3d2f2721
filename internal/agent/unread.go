package agent

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/pyro-mcp/pyro/internal/pty"
)

const (
	// readPatience is how long a shell can take to read its input. It includes processor time and
	// sleep, but not the time for which the shell waits for a processor.
	readPatience = time.Second
	readLimit    = 10 * time.Second     // how long it can take in total
	readPoll     = 5 * time.Millisecond // the time before the first check
	maxReadPoll  = 50 * time.Millisecond
)

// awaitRead waits until a foreground shell has read its input and is idle. A signal before that
// would interrupt the prompt, and the shell would then run the typed command. awaitRead gives up
// after readPatience or readLimit. It does not wait for foreground programs other than the shell.
func (p *process) awaitRead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var slept, before time.Duration
	for poll := readPoll; p.shellInForeground(); poll = min(2*poll, maxReadPoll) {
		select { // the kernel delivers input with a delay, so wait before each check
		case <-time.After(poll):
		case <-ctx.Done():
			return
		}
		running, used := p.activity()
		switch {
		case running:
		case pty.Unread(p.terminal) == 0:
			return
		default:
			slept += poll
		}
		if before == 0 {
			before = used
		}
		if slept+used-before >= readPatience {
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

// activity reports whether a process of the session runs, and the processor time of all. If one
// runs, the shell might be about to start a job, or a new job might be about to become the
// foreground group.
func (p *process) activity() (running bool, used time.Duration) {
	for _, m := range members(p.command.PID()) {
		running = running || m.running
		used += m.used
	}
	return running, used
}
