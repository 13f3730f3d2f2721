package gvisor

import (
	"context"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

var _ machine.Thawer = (*sandbox)(nil)

// pauseState records whether a machine is paused. Its lock serializes pause, resume and save.
type pauseState struct {
	mu     chan struct{}
	paused bool
}

func newPauseState() pauseState { return pauseState{mu: make(chan struct{}, 1)} }

func (s *pauseState) lock(ctx context.Context) error {
	select {
	case s.mu <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *pauseState) unlock() { <-s.mu }

// Pause stops everything in the machine, including system calls. After Pause the volume contains
// all writes of these calls. Idempotent. If ctx is cancelled, the machine might or might not be
// paused.
func (s *sandbox) Pause(ctx context.Context) error {
	return fault.Wrap(s.locked(ctx, s.pause), "pause machine", s.id)
}

// Resume lets a paused or saved machine run again. Idempotent. If ctx is cancelled, the machine
// might or might not be paused.
func (s *sandbox) Resume(ctx context.Context) error {
	return fault.Wrap(s.locked(ctx, s.resume), "resume machine", s.id)
}

// Thaw lets the processes run that the sentry froze after a restore. Idempotent.
func (s *sandbox) Thaw(ctx context.Context) error {
	s.guard() // a resumed machine runs its processes only from here on
	return fault.Wrap(s.ask(ctx, "wake", "awake"), "thaw machine", s.id)
}

func (s *sandbox) locked(ctx context.Context, do func(context.Context) error) error {
	if err := s.pauseState.lock(ctx); err != nil {
		return err
	}
	defer s.pauseState.unlock()
	return do(ctx)
}

func (s *sandbox) pause(ctx context.Context) error {
	err := s.ask(ctx, "pause", "paused")
	s.pauseState.paused = s.pauseState.paused || err == nil
	return err
}

func (s *sandbox) resume(ctx context.Context) error {
	s.pauseState.paused = false // false even after an error, because the caller wants the machine to run
	return s.ask(ctx, "resume", "resumed")
}
