package pyro

import (
	"context"
	"sync"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// signalPasser hands a caller's signals to the command once there is one. One that comes before ends the run: there is nobody to ask.
type signalPasser struct {
	mu   sync.Mutex
	pass func(syscall.Signal)
}

// passSignals passes signals on until ctx is over.
func passSignals(ctx context.Context, cancel context.CancelCauseFunc, signals <-chan syscall.Signal) *signalPasser {
	s := &signalPasser{}
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
				if pass := s.to(); pass != nil {
					pass(sig)
				} else {
					cancel(fault.Newf(Canceled, "ended by signal: %s", sig))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

func (s *signalPasser) to() func(syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pass
}

// started says whom signals go to from now on.
func (s *signalPasser) started(pass func(syscall.Signal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass = pass
}
