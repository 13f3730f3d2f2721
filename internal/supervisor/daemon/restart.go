package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
)

// The delay before a restart doubles each time, from firstDelay to longestDelay. After the program
// has run for stableAfter, the delay is firstDelay again.
const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 30 * time.Second
	stableAfter  = 10 * time.Second
)

// runs runs the program of a service, and restarts it as its restart policy demands. It returns the
// outcome of the last run. If the service waits for a restart, runs begins with the delay.
func (v *service) runs(c program.Command, from *program.Position) (exit program.Exit, err error) {
	delay, waits := firstDelay, v.record.Result.Restarts.Waits
	exit = v.record.Result.Restarts.Exit
	for ; ; from = nil {
		started := func() {}
		if waits {
			from = nil // the run of the checkpoint has ended
			if started, err = v.awaitRestart(delay); err != nil {
				break
			}
			delay = min(2*delay, longestDelay)
		}
		v.onStart = func(int) { started() }
		began := time.Now()
		exit, err = v.attach(c, from, nil)
		started()
		if waits = v.restarts(exit, err); !waits {
			break
		}
		if time.Since(began) >= stableAfter {
			delay = firstDelay
		}
	}
	if waits && errors.Is(err, errStopped) { // the program had ended before
		err = nil
	}
	return exit, err
}

// restarts reports whether the program of a service is started again after an end, and records the
// end in this case.
func (v *service) restarts(exit program.Exit, err error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	policy := v.record.Spec.Restart
	if v.unready = !v.up(); v.unready || err != nil || v.stopped || !policy.After(exit) {
		return false
	}
	select {
	case <-v.daemon.machine.Done():
		return false
	default:
	}
	r := &v.record.Result.Restarts
	r.Waits, r.Exit, r.At = true, v.daemon.redactExit(exit), time.Now()
	v.save()
	return true
}

// up reports whether the service was ready at some time. The caller holds v.mu.
func (v *service) up() bool {
	if v.record.Spec.Readiness != nil || !v.record.ReadyAt.IsZero() {
		return !v.record.ReadyAt.IsZero()
	}
	return v.hasStarted()
}

// awaitRestart waits for the delay and prepares the next run. The caller must call the function
// started when the program has been started or could not be started. Until then, the machine is not
// saved, because the saved machine would not know the program. A restart does not count as
// activity.
func (v *service) awaitRestart(delay time.Duration) (started func(), err error) {
	for {
		select {
		case <-time.After(delay):
		case <-v.life.Done():
			return nil, context.Cause(v.life)
		}
		starts := &v.daemon.starts
		if !starts.TryRLock() { // the machine is being saved
			continue
		}
		if v.daemon.suspended.Load() {
			err = errSuspended
		} else if !v.renew() {
			err = errStopped
		}
		if err != nil {
			starts.RUnlock()
			return nil, err
		}
		return sync.OnceFunc(starts.RUnlock), nil
	}
}

// holdRestarts waits until no service is being started again, but at most closePatience. Until the
// function release is called, no restart begins.
func (d *daemon) holdRestarts(ctx context.Context) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	for !d.starts.TryLock() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return func() {}
		}
	}
	return sync.OnceFunc(d.starts.Unlock)
}

// renew prepares another run of the program, with a new ID and new output writers. It reports
// whether the service was not stopped.
func (v *service) renew() bool {
	var replaced []*network.Port
	defer func() { closePorts(replaced) }()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped {
		return false
	}
	v.id = program.NewID()
	v.record.Result.Restarts.Waits = false
	v.record.Result.Restarts.Count++
	v.setOutputs(savedStreams{Stderr: new(position)})
	replaced = v.reclaim() // the connections have ended with the program
	v.save()
	return true
}

// restartOf returns the restart policy of a request. It is empty if the program is never started
// again.
func restartOf(asked string) store.RestartPolicy {
	if p := store.RestartPolicy(asked); p != store.RestartNo {
		return p
	}
	return ""
}
