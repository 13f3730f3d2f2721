package gvisor

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

var (
	_ machine.Pauser = (*sandbox)(nil)
	_ machine.Waker  = (*sandbox)(nil)
)

// standing is whether a machine stands still, and the turn of who changes that.
type standing struct {
	turn  chan struct{}
	still bool
}

func newStanding() standing { return standing{turn: make(chan struct{}, 1)} }

func (s *standing) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *standing) leave() { <-s.turn }

// Pause stops all that runs in the machine, system calls too: what these have written is in the volume's files when it returns. Idempotent. When ctx is
// cancelled, the machine may be paused or not.
func (s *sandbox) Pause(ctx context.Context) error {
	return fault.Wrap(s.inTurn(ctx, s.pause), "pause machine", s.id)
}

// Resume lets it go on, after a Save too. Idempotent. When ctx is cancelled, the machine may be paused or not.
func (s *sandbox) Resume(ctx context.Context) error {
	return fault.Wrap(s.inTurn(ctx, s.resume), "resume machine", s.id)
}

// Wake has the sentry let run what it holds since it was restored. Idempotent.
func (s *sandbox) Wake(ctx context.Context) error {
	s.guard() // a machine that goes on has had no processes before
	return fault.Wrap(s.ask(ctx, "wake", "awake"), "wake machine", s.id)
}

func (s *sandbox) inTurn(ctx context.Context, do func(context.Context) error) error {
	if err := s.standing.take(ctx); err != nil {
		return err
	}
	defer s.standing.leave()
	return do(ctx)
}

func (s *sandbox) pause(ctx context.Context) error {
	err := s.ask(ctx, "pause", "paused")
	s.standing.still = s.standing.still || err == nil
	return err
}

func (s *sandbox) resume(ctx context.Context) error {
	s.standing.still = false // whatever comes of it: who asks for this does not want it to stand still
	return s.ask(ctx, "resume", "resumed")
}
