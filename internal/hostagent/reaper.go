package hostagent

import (
	"context"
	"math"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	reapEvery = time.Second // interval, which is also the maximum delay of an automatic pause
	reapAgain = time.Minute // delay until a failed pause is retried
)

// reap pauses the sandboxes whose inactivity timeout has expired. Each pause runs in its own
// goroutine, so that a slow pause does not delay the others.
func (a *Agent) reap() {
	for _, s := range a.all() {
		if !s.pauseDue() {
			continue
		}
		select {
		case s.changeLock <- struct{}{}:
		default:
			continue // another change is in progress
		}
		a.working.Go(func() {
			defer func() { <-s.changeLock }()
			if err := a.pauseInactive(a.ctx, s); err != nil && a.ctx.Err() == nil {
				a.options.Log.Error("pause an inactive sandbox", "sandbox", s.id(), "error", err)
				s.delayPause(reapAgain)
			}
		})
	}
}

// pauseInactive pauses a sandbox if it is still inactive. The caller must hold the change lock.
// pauseInactive records the reason before it pauses the machine. So if this process dies and the
// pause completes, the next host agent still reports the pause.
func (a *Agent) pauseInactive(ctx context.Context, s *sandbox) error {
	if status, err := a.status(s); err != nil || status != statusRunning {
		return err
	}
	endTransition, ok := s.beginAutoPause()
	if !ok {
		return nil
	}
	defer endTransition()
	a.reporting.Lock()
	s.report = 0 // forget the sequence number of an earlier pause
	a.reporting.Unlock()
	if err := a.set(s, func(r *record) { r.Inactive = true }); err != nil {
		return err
	}
	err := a.pauseMachine(ctx, s)
	if fault.KindOf(err) == fault.Precondition { // the machine has already ended
		return nil
	}
	return err
}

// reportSequence returns the sequence number of the report that a sandbox was paused automatically.
// The first report assigns the number. Numbers increase even if the clock goes back. The caller
// must hold a.reporting.
func (a *Agent) reportSequence(s *sandbox) int64 {
	if s.report == 0 {
		a.lastReport = max(a.lastReport+1, a.options.clock().UnixNano())
		s.report = a.lastReport
	}
	return s.report
}

// acknowledge ends the reports of automatic pauses up to a sequence number. The caller must hold
// a.reporting.
func (a *Agent) acknowledge(until int64) error {
	if until <= 0 { // most calls acknowledge nothing
		return nil
	}
	// An earlier host agent may have assigned the number when the clock was ahead of the current
	// time.
	a.lastReport = max(a.lastReport, min(until, math.MaxInt64/2))
	for _, s := range a.all() {
		if s.report == 0 || s.report > until {
			continue
		}
		if err := a.set(s, forgetInactivity); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		s.report = 0
	}
	return nil
}
