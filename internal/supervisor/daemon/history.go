package daemon

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/store"
)

// history is the entry of one command.
type history struct {
	daemon         *daemon
	command        store.Command
	begun          chan struct{} // closed when it is in the database, or can't be
	failed         error         // why not; set before
	stdout, stderr excerpt
}

// record begins an entry, without keeping the command waiting for the disk.
func (d *daemon) record(ctx context.Context, s *supervisorv1.ExecStart) *history {
	h := &history{daemon: d, begun: make(chan struct{}), command: store.Command{Argv: d.secrets.texts(s.Argv), Cwd: d.secrets.Text(s.Cwd), StartedAt: time.Now()}}
	go h.begin(context.WithoutCancel(ctx))
	return h
}

func (h *history) begin(ctx context.Context) {
	defer close(h.begun)
	h.command.Sequence, h.failed = h.daemon.store.Begin(ctx, h.daemon.order.Workspace.ID, h.command)
}

// end completes the entry, and gives its number.
func (h *history) end(exit client.Exit, failed error) (int, error) {
	if <-h.begun; h.failed != nil {
		return 0, fault.Wrap(h.failed, "keep the command's history", "")
	}
	c := &h.command
	c.EndedAt = time.Now()
	c.Result = store.Result{
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, NotRun: h.daemon.secrets.Text(exit.Message), OutOfMemory: exit.OutOfMemory,
		DurationNS: int64(exit.Duration), StdoutBytes: h.stdout.total, StderrBytes: h.stderr.total,
	}
	if failed != nil {
		c.Result.ExitCode, c.Result.Broken = fault.ExitFailure, h.daemon.secrets.Text(failed.Error())
		c.Result.DurationNS = int64(c.EndedAt.Sub(c.StartedAt))
	}
	c.Stdout, c.Stderr = h.stdout.bytes(), h.stderr.bytes()
	_, expires := h.daemon.activity.times()
	err := h.daemon.store.End(context.Background(), h.daemon.order.Workspace.ID, *c, expires)
	h.daemon.ends.notify()
	return c.Sequence, fault.Wrap(err, "keep the command's history", "")
}

// ends tells followers of the history that the end of a command is in the database.
type ends struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next end; nil: no follower waits for it
}

// changed is closed by the next end.
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

// excerpt keeps the beginning and the end of a stream.
type excerpt struct {
	head, tail []byte
	total      int64
}

const half = store.OutputBytes / 2

func (e *excerpt) Write(b []byte) (int, error) {
	n := len(b)
	e.total += int64(n)
	if room := half - len(e.head); room > 0 {
		taken := min(room, len(b))
		e.head = append(e.head, b[:taken]...)
		b = b[taken:]
	}
	if len(b) >= half {
		e.tail = append(e.tail[:0], b[len(b)-half:]...)
		return n, nil
	}
	if e.tail = append(e.tail, b...); len(e.tail) > store.OutputBytes {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-half:]...)
	}
	return n, nil
}

// bytes gives what is kept, with a line where something was left out.
func (e *excerpt) bytes() []byte {
	tail := e.tail[max(0, len(e.tail)-half):]
	left := e.total - int64(len(e.head)) - int64(len(tail))
	if left == 0 {
		return append(e.head, tail...)
	}
	return fmt.Appendf(e.head, "\n[… %d bytes are not kept …]\n%s", left, tail)
}

func (e *excerpt) standing() standingText {
	return standingText{bytes.Clone(e.head), bytes.Clone(e.tail), e.total}
}

func (s standingText) excerpt() excerpt { return excerpt{s.Head, s.Tail, s.Total} }
