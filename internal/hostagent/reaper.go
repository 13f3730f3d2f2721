package hostagent

import (
	"context"
	"math"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	reapEvery = time.Second // how late a pause because of inactivity may be
	reapAgain = time.Minute // when one is tried again that failed
)

// reap pauses sandboxes that were inactive for as long as they may be, each by itself: one that takes long holds up none.
func (a *Agent) reap() {
	for _, s := range a.all() {
		if !s.due() {
			continue
		}
		select {
		case s.changes <- struct{}{}:
		default:
			continue // it is being made another already
		}
		a.working.Go(func() {
			defer func() { <-s.changes }()
			if err := a.pauseInactive(a.ctx, s); err != nil && a.ctx.Err() == nil {
				a.options.Log.Error("pause sandbox that is inactive", "sandbox", s.id(), "error", err)
				s.spare(reapAgain)
			}
		})
	}
}

// pauseInactive pauses a sandbox, whose change is the caller's, unless it is used by now. That it does so because of inactivity is on the disk before: whoever comes back when
// the host agent has died meanwhile tells it, where the machine was paused indeed.
func (a *Agent) pauseInactive(ctx context.Context, s *sandbox) error {
	if status, err := a.status(s); err != nil || status != statusRunning {
		return err
	}
	turned, ok := s.turnInactive()
	if !ok {
		return nil
	}
	defer turned()
	a.telling.Lock()
	s.told = 0 // of an earlier pause
	a.telling.Unlock()
	if err := a.set(s, func(r *record) { r.Inactive = true }); err != nil {
		return err
	}
	err := a.putDown(ctx, s)
	if fault.KindOf(err) == fault.Precondition { // it has ended meanwhile
		return nil
	}
	return err
}

// tell numbers a sandbox that is paused because of inactivity, when that is told for the first time: what is told later has a higher number, whatever the clock does. The
// lock of telling is held.
func (a *Agent) tell(s *sandbox) int64 {
	if s.told == 0 {
		a.told = max(a.told+1, a.options.clock().UnixNano())
		s.told = a.told
	}
	return s.told
}

// acknowledge has nobody told any more of those up to a number. The lock of telling is held.
func (a *Agent) acknowledge(until int64) error {
	if until <= 0 { // as most lists say
		return nil
	}
	a.told = max(a.told, min(until, math.MaxInt64/2)) // another host agent gave that, whose clock may have been ahead
	for _, s := range a.all() {
		if s.told == 0 || s.told > until {
			continue
		}
		if err := a.set(s, forgetInactivity); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		s.told = 0
	}
	return nil
}
