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

// sandbox is one running machine.
type sandbox struct {
	id        string
	process   *process.Process
	storage   *machine.TreeStorage // nil where it has none
	gofer     *process.Process     // nil likewise
	control   *control
	link      net.Conn
	group     *cgroup.Group // nil where the host allows none
	unlimited error         // why not
	phases    []machine.Phase
	standing  standing

	description description // of what it would be saved as
	done        chan struct{}

	mu      sync.Mutex
	reason  error
	closing bool
	losses  *losses // nil: nothing is watched yet, or the host can't
}

var _ machine.Machine = (*sandbox)(nil)

// started waits until the agent has been started.
func (s *sandbox) started(ctx context.Context) error {
	err := s.control.await(ctx, "started")
	var r *refusal
	if errors.As(err, &r) {
		return &fault.Error{Kind: fault.Unavailable, Err: r, Hint: r.hint}
	}
	return err
}

// watch waits for the end of the processes, tells why it came, and gives back what the machine had. None of them outlives the other.
func (s *sandbox) watch() {
	if s.gofer == nil {
		<-s.process.Done()
		s.tell(s.process)
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

// watchBoth is watch for a sentry with its gofer, which ends by itself, with success, once the sentry is gone.
func (s *sandbox) watchBoth() {
	select {
	case <-s.process.Done():
	case <-s.gofer.Done():
		if s.gofer.Success() {
			select {
			case <-s.process.Done():
			case <-time.After(endPatience):
			}
		}
	}
	select {
	case <-s.process.Done():
		s.tell(s.process)
	default:
		s.tell(s.gofer)
	}
	s.process.Kill()
	s.gofer.Kill()
}

// tell keeps why the machine ends: because of a process that has ended, where nothing else is known.
func (s *sandbox) tell(of *process.Process) {
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

// ended says why a process ended.
func (s *sandbox) ended(of *process.Process) error {
	return s.outOfMemory(&fault.Error{Op: "run machine", Kind: fault.Unavailable, Err: of.Ended()})
}

// outOfMemory gives the error of a machine's end another cause if the kernel has killed one of its processes because memory was short.
func (s *sandbox) outOfMemory(e *fault.Error) error {
	if s.group != nil && s.group.OutOfMemory() {
		e.Kind, e.Err, e.Hint = fault.Exhausted, machine.ErrOutOfMemory, "--mem-mib gives it more"
	}
	return e
}

// giveUp ends a machine that did not start, and gives the reason that tells most.
func (s *sandbox) giveUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		select { // its own end tells more than that a connection to it has broken
		case <-s.done:
			err = s.Err()
		case <-time.After(endPatience):
		}
	}
	s.Close()
	return err
}

// endPatience is how long a machine that failed may take to end by itself.
const endPatience = 100 * time.Millisecond

// Link is the two pipes to the agent.
func (s *sandbox) Link() net.Conn { return s.link }

// Window is nil: pipes are fast enough.
func (s *sandbox) Window() *os.File { return nil }

// Phases are the steps of its start.
func (s *sandbox) Phases() []machine.Phase { return s.phases }

// PID is the sentry's.
func (s *sandbox) PID() int { return s.process.PID() }

// PIDs are the sentry's and, where there is a volume, the gofer's.
func (s *sandbox) PIDs() []int {
	if s.gofer == nil {
		return []int{s.PID()}
	}
	return []int{s.PID(), s.gofer.PID()}
}

// Limits tells why the machine is not bounded, where it is not.
func (s *sandbox) Limits() error { return s.unlimited }

// Done is closed when the machine has ended.
func (s *sandbox) Done() <-chan struct{} { return s.done }

// Err says why the machine ended.
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

// fail ends the machine, for a reason.
func (s *sandbox) fail(reason error) {
	s.mu.Lock()
	if s.reason == nil {
		s.reason = reason
	}
	s.mu.Unlock()
	s.Close()
}

// Close ends the sentry, and with it its PID namespace.
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
	s.control.Close() // not before: what the process said last may not have been read yet
	return nil
}
