package daemon

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/host"
	"github.com/pyro-mcp/pyro/internal/storage"
	"github.com/pyro-mcp/pyro/internal/supervisor"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// inProcess returns a supervisor whose machine runs, and that does not serve yet. It runs in this
// process.
func (h *home) inProcess(t *testing.T) *daemon {
	t.Helper()
	return h.inProcessUnder(t, func(d machine.Driver) machine.Driver { return d })
}

// inProcessUnder is like inProcess, with a driver that changes the machine.
func (h *home) inProcessUnder(t *testing.T, change func(machine.Driver) machine.Driver) *daemon {
	t.Helper()
	d := newDaemon("test", h.config)
	t.Cleanup(func() { d.store.Close() })
	d.disks = h.config.Workspace.Disks
	program, err := guest.Find()
	check(t, err)
	d.machine, err = supervisor.Start(t.Context(), supervisor.Config{
		Dirs: h.config.Dirs, Driver: change(host.New(host.Config{Dirs: h.config.Dirs, Guest: program})), VCPUs: 1, MemMiB: 128,
		Persistent: &supervisor.Persistent{
			ID: h.config.Workspace.ID, Folder: h.folder.Machine(), Storage: h.disks().Machine(d.disks), Started: d.recordProcesses,
		},
	})
	check(t, err)
	t.Cleanup(func() { d.machine.Close() })
	return d
}

// TestLiveSnapshotDuringEnd checks that a live snapshot that meets the end of its supervisor fails,
// and that the supervisor ends.
func TestLiveSnapshotDuringEnd(t *testing.T) {
	t.Parallel()
	d := newHome(t, nil).inProcess(t)
	close(d.free)
	d.activity = newActivity(0, 0, func(_, _ time.Time) error { return nil })
	server, err := d.serve()
	check(t, err)
	d.server = server
	done, err := server.begin(t.Context())
	check(t, err)
	ended := make(chan error, 1)
	go func() {
		d.stop(end{reason: "enough"})
		ended <- d.end(t.Context(), d.stopFor)
	}()
	testenv.Eventually(t, "the supervisor waits for its operations", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return server.refused != nil
	})
	failed := make(chan error, 1)
	go func() { failed <- d.snapshot(t.Context(), "s", true, true) }()
	select {
	case err := <-failed:
		if err != errStopping {
			t.Errorf("got %v", err)
		}
	case <-time.After(testenv.Patience):
		t.Fatal("the snapshot waits for the end of the supervisor")
	}
	done()
	check(t, <-ended)
}

// TestSnapshotAfterPause checks that a snapshot that waited for a pause changes nothing, because
// the database would lose the saved machine.
func TestSnapshotAfterPause(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	d := h.inProcess(t)
	paused := d.disks
	paused.Checkpoint = "memory-1"
	check(t, h.store.SetDisks(t.Context(), h.config.Workspace.ID, paused))
	d.suspended.Store(true)
	for _, live := range []bool{false, true} {
		if err := d.snapshot(t.Context(), "s", live, live); err != errPausing {
			t.Errorf("live %t: got %v", live, err)
		}
	}
	w, err := h.store.Workspace(t.Context(), h.config.Workspace.ID)
	check(t, err)
	if !reflect.DeepEqual(w.Disks, paused) {
		t.Errorf("its disks are %+v, and were %+v", w.Disks, paused)
	}
}

// latePauser is a driver whose machines pause, but too late. They report whether they were resumed.
type latePauser struct {
	machine.Driver
	resumed chan struct{}
}

type lateMachine struct {
	machine.Machine
	latePauser
}

func (p latePauser) Start(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	m, err := p.Driver.Start(ctx, spec)
	return lateMachine{m, p}, err
}

func (lateMachine) Pause(context.Context) error { return errLate }

func (m lateMachine) Resume(context.Context) error {
	close(m.resumed)
	return nil
}

var errLate = errors.New("too late")

// TestFailedPauseIsUndone checks that a snapshot resumes the machine after a failed pause, because
// the machine might be paused nevertheless.
func TestFailedPauseIsUndone(t *testing.T) {
	t.Parallel()
	h, resumed := newHome(t, nil), make(chan struct{})
	d := h.inProcessUnder(t, func(d machine.Driver) machine.Driver { return latePauser{d, resumed} })
	if err := d.copyPaused(t.Context(), d.disksFolder(), &storage.Snapshot{}, false); !errors.Is(err, errLate) {
		t.Errorf("got %v", err)
	}
	select {
	case <-resumed:
	default:
		t.Error("its machine stays paused")
	}
}
