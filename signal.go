package pyro

import (
	"context"
	"sync"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// signalForwarder sends a caller's signals to a command. A signal that arrives before the method
// "starting" is called ends the caller's operation. Later signals are queued until the command
// runs.
type signalForwarder struct {
	mu      sync.Mutex
	waits   bool // the command is about to start, so signals are queued
	pass    func(syscall.Signal)
	pending []syscall.Signal
}

// forwardSignals starts to handle signals, until ctx ends. If a signal arrives too early for the
// command, forwardSignals calls cancel.
func forwardSignals(ctx context.Context, cancel context.CancelCauseFunc, signals <-chan syscall.Signal) *signalForwarder {
	s := &signalForwarder{}
	if signals == nil {
		return s
	}
	go func() {
		for {
			select {
			case sig, ok := <-signals:
				if !ok {
					return
				}
				if !s.signal(sig) {
					cancel(fault.Newf(Canceled, "ended by signal: %s", sig))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// signal sends or queues a signal. It returns false if no command runs or is about to start.
func (s *signalForwarder) signal(sig syscall.Signal) bool {
	s.mu.Lock()
	pass := s.pass
	if pass == nil && s.waits {
		s.pending = append(s.pending, sig)
	}
	waits := s.waits
	s.mu.Unlock()
	if pass != nil {
		pass(sig)
	}
	return waits
}

// starting must be called when the command is about to start.
func (s *signalForwarder) starting() {
	s.mu.Lock()
	s.waits = true
	s.mu.Unlock()
}

// started must be called when the command has started. The function pass sends a signal to the
// command.
func (s *signalForwarder) started(pass func(syscall.Signal)) {
	go func() { // the caller must not wait until the queued signals are sent
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, sig := range s.pending {
			pass(sig)
		}
		s.pass = pass
	}()
}
