package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine/host"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// waiting returns a service of a checkpoint: its program has ended, and it waits for a restart. Its
// machine runs in this process.
func waiting(t *testing.T) *service {
	t.Helper()
	h := newHome(t, nil)
	guestProgram, err := guest.Find()
	check(t, err)
	m, err := supervisor.Start(t.Context(), supervisor.Config{
		Dirs: h.config.Dirs, Driver: host.New(host.Config{Dirs: h.config.Dirs, Guest: guestProgram}), VCPUs: 1, MemMiB: 128,
	})
	check(t, err)
	t.Cleanup(func() { m.Close() })
	d := &daemon{machine: m, config: h.config, folder: h.folder, store: h.store}
	record := store.Service{Name: "web", StartedAt: time.Now(), ReadyAt: time.Now(), Spec: store.ServiceSpec{Restart: store.RestartOnFailure}}
	record.Result.Restarts = store.Restarts{Count: 3, Waits: true, Exit: program.Exit{Code: 3}}
	v := d.newService("an-ended-program", record)
	check(t, v.open(t.Context()))
	t.Cleanup(func() { v.closeLogs() })
	return v
}

// ran runs a program as the service, from its checkpoint.
func (v *service) ran(c program.Command) (program.Exit, error) {
	return v.runs(c, new(program.Position))
}

// TestRestartAfterPause checks that a service that was saved while it waited for a restart is
// started again after the resume. Its machine no longer knows the ended program.
func TestRestartAfterPause(t *testing.T) {
	t.Parallel()
	v := waiting(t)
	exit, err := v.ran(sh("exit 0"))
	if r := v.record.Result.Restarts; err != nil || exit.Code != 0 || r.Count != 4 || r.Waits {
		t.Errorf("%+v, %v: %+v", exit, err, r)
	}
}

// TestNoRestartDuringSave checks that no program is started while the machine is being saved. It
// also checks that the machine is not saved while a program is being started.
func TestNoRestartDuringSave(t *testing.T) {
	t.Parallel()
	v := waiting(t)
	release := v.daemon.holdRestarts(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := v.ran(sh("exit 0"))
		done <- err
	}()
	time.Sleep(5 * firstDelay)
	v.mu.Lock()
	r := v.record.Result.Restarts
	v.mu.Unlock()
	if !r.Waits || r.Count != 3 {
		t.Errorf("during the save: %+v", r)
	}
	release()
	check(t, <-done)
	started, err := waiting(t).awaitRestart(0)
	check(t, err)
	started()
	started() // a second call does nothing

	v = waiting(t)
	started, err = v.awaitRestart(0)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	v.daemon.holdRestarts(ctx)() // a program that does not start in time does not prevent a pause
	if ctx.Err() == nil {
		t.Error("the machine was saved while a program was being started")
	}
	started()
	v.daemon.holdRestarts(t.Context())()
}

// TestNoRestartAfterPause checks that a supervisor whose machine was saved starts no program.
func TestNoRestartAfterPause(t *testing.T) {
	t.Parallel()
	v := waiting(t)
	v.daemon.suspended.Store(true)
	if _, err := v.ran(sh("exit 0")); !errors.Is(err, errSuspended) || v.record.Result.Restarts.Count != 3 {
		t.Errorf("%v, %+v", err, v.record.Result.Restarts)
	}
}
