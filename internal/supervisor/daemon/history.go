package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	programv1 "github.com/pyro-mcp/pyro/internal/gen/program/v1"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// history is the entry of one command in the history.
type history struct {
	daemon         *daemon
	command        store.Command
	begun          chan struct{} // closed when the entry is in the database or can't be written
	failed         error         // why the entry can't be written; set before begun is closed
	stdout, stderr program.HeadTail
}

// newHistory returns an entry. The caller starts to write it with begin. Messages to clients wait
// until the entry is on the disk; the start of the command does not wait.
func (d *daemon) newHistory(s *programv1.Command) *history {
	return &history{daemon: d, begun: make(chan struct{}), command: store.Command{Argv: d.secrets.texts(s.Argv), Cwd: d.secrets.Text(s.Cwd), StartedAt: time.Now()}}
}

// sequence returns the number of the command in the history. It is 0 until the entry is written.
func (h *history) sequence() int {
	select {
	case <-h.begun:
		return h.command.Sequence
	default:
		return 0
	}
}

func (h *history) begin(ctx context.Context) {
	defer close(h.begun)
	h.command.Sequence, h.failed = h.daemon.store.Begin(ctx, h.daemon.config.Workspace.ID, h.command)
}

// end completes the entry, and returns its number in the history.
func (h *history) end(exit program.Exit, failed error) (int, error) {
	if <-h.begun; h.failed != nil {
		return 0, fault.Wrap(h.failed, "keep the command's history", "")
	}
	c := &h.command
	c.EndedAt = time.Now()
	exit.NotRun = h.daemon.secrets.Text(exit.NotRun)
	c.Result = store.Result{Exit: exit, StdoutBytes: h.stdout.Total, StderrBytes: h.stderr.Total}
	if failed != nil {
		c.Result.Code, c.Result.Broken = fault.ExitFailure, h.daemon.secrets.Text(failed.Error())
		c.Result.Duration = c.EndedAt.Sub(c.StartedAt)
	}
	c.Stdout, c.Stderr = h.stdout.Bytes(), h.stderr.Bytes()
	_, expires := h.daemon.activity.times()
	err := h.daemon.store.End(context.Background(), h.daemon.config.Workspace.ID, *c, expires)
	h.daemon.ends.notify()
	return c.Sequence, fault.Wrap(err, "keep the command's history", "")
}

// ends notifies followers of the history when the database contains another end of a command.
type ends struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next end; nil: no follower waits
}

// changed returns a channel that is closed when the next command has ended.
func (e *ends) changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next == nil {
		e.next = make(chan struct{})
	}
	return e.next
}

func (e *ends) notify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next != nil {
		close(e.next)
		e.next = nil
	}
}
