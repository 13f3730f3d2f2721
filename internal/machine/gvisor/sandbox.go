package gvisor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/cgroup"
	"github.com/pyro-mcp/pyro/internal/machine/process"
)

// sandbox is a running machine.
type sandbox struct {
	id         string
	process    *process.Process
	storage    *machine.TreeStorage // nil if the machine has no storage
	gofer      *process.Process     // nil if the machine has no volume
	control    *control
	link       net.Conn
	group      *cgroup.Group // nil if the host does not allow cgroups
	unlimited  error         // why group is nil
	phases     []machine.Phase
	pauseState pauseState

	description description // recorded by Save
	done        chan struct{}

	mu      sync.Mutex
	reason  error
	closing bool
	losses  *losses // nil before the first guard and after the end, or if the host does not support the watch
}

var _ machine.Machine = (*sandbox)(nil)

// started waits until the agent has started.
func (s *sandbox) started(ctx context.Context) error {
	err := s.control.await(ctx, "started")
	var r *refusal
	if errors.As(err, &r) {
		return &fault.Error{Kind: fault.Unavailable, Err: r, Hint: r.hint}
	}
	return err
}

// watch waits until the machine's processes have ended, records the reason and frees all resources.
// When one process ends, watch kills the other.
func (s *sandbox) watch() {
	if s.gofer == nil {
		<-s.process.Done()
		s.setReason(s.process)
	} else {
		s.watchBoth()
	}
	s.link.Close()
	s.mu.Lock()
	if s.losses != nil {
		s.losses.close()
	}
	s.losses = nil
	s.mu.Unlock()
	if s.group != nil {
		s.group.Close()
	}
	close(s.done)
}

// watchBoth does the same for a sentry with a gofer. The gofer exits with success after the sentry
// has ended.
func (s *sandbox) watchBoth() {
	select {
	case <-s.process.Done():
	case <-s.gofer.Done():
		if s.gofer.Success() {
			select {
			case <-s.process.Done():
			case <-time.After(endTimeout):
			}
		}
	}
	select {
	case <-s.process.Done():
		s.setReason(s.process)
	default:
		s.setReason(s.gofer)
	}
	s.process.Kill()
	s.gofer.Kill()
}

// setReason records why the machine ended, unless a reason is already recorded.
func (s *sandbox) setReason(of *process.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		s.reason = s.ended(of)
	}
}

func (s *sandbox) closeConnections() {
	s.control.Close()
	s.link.Close()
}

// ended returns the error for a machine after the given process has ended.
func (s *sandbox) ended(of *process.Process) error {
	return s.outOfMemory(&fault.Error{Op: "run machine", Kind: fault.Unavailable, Err: of.Ended()})
}

// outOfMemory replaces the error by ErrOutOfMemory if the kernel killed one of the machine's
// processes because memory was exhausted.
func (s *sandbox) outOfMemory(e *fault.Error) error {
	if s.group != nil && s.group.OutOfMemory() {
		e.Kind, e.Err, e.Hint = fault.Exhausted, machine.ErrOutOfMemory, "--mem-mib gives it more"
	}
	return e
}

// closeAfter ends a machine that did not start, and returns the most precise reason.
func (s *sandbox) closeAfter(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		select { // the reason for the machine's end says more than a broken connection
		case <-s.done:
			err = s.Err()
		case <-time.After(endTimeout):
		}
	}
	s.Close()
	return err
}

// endTimeout is how long pyro waits for a failed machine to end by itself. On a busy host, the
// kernel can need a second to end a sentry with much memory.
const endTimeout = 5 * time.Second

// Link returns the connection to the agent, which consists of two pipes.
func (s *sandbox) Link() net.Conn { return s.link }

// SharedBuffer returns nil, because pipes are fast enough.
func (s *sandbox) SharedBuffer() *os.File { return nil }

// Phases returns the steps of the start.
func (s *sandbox) Phases() []machine.Phase { return s.phases }

// PID returns the PID of the sentry.
func (s *sandbox) PID() int { return s.process.PID() }

// PIDs returns the PIDs of the sentry and the gofer.
func (s *sandbox) PIDs() []int {
	if s.gofer == nil {
		return []int{s.PID()}
	}
	return []int{s.PID(), s.gofer.PID()}
}

// Limits returns nil if the machine has limits, or the reason why it has none.
func (s *sandbox) Limits() error { return s.unlimited }

// Done is closed when the machine has ended.
func (s *sandbox) Done() <-chan struct{} { return s.done }

// Err returns the reason why the machine ended.
func (s *sandbox) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	return s.reason
}

// fail records a reason, unless there already is one, and ends the machine.
func (s *sandbox) fail(reason error) {
	s.mu.Lock()
	if s.reason == nil {
		s.reason = reason
	}
	s.mu.Unlock()
	s.Close()
}

// Close kills the sentry, and so all processes in its PID namespace.
func (s *sandbox) Close() error {
	s.mu.Lock()
	select {
	case <-s.done:
	default:
		if s.reason == nil {
			s.closing = true
		}
	}
	s.mu.Unlock()
	s.process.Kill()
	<-s.done
	s.control.Close() // not earlier, because the last message might still be unread
	return nil
}
