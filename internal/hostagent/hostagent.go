// Package hostagent serves the machines of one host to a control plane. It serves
// proto/hostagent/v1 over gRPC, gRPC-Web and Connect on one port.
//
// A sandbox is a workspace, and its supervisor owns the machine. So sandboxes keep running when the
// host agent exits, crashes or is replaced. The host agent keeps one record per sandbox in its own
// folder, and reads all records when it starts. If the creation of a sandbox was interrupted, the
// host agent removes that sandbox.
//
// The records do not say whether a sandbox is running or paused. The host agent checks the machine
// instead. So a crash during a change leaves no wrong state. A template is a workspace that never
// runs. Its description is a label of that workspace, so both are committed together.
package hostagent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/operations"
)

// Options configure a host agent. Folder, Machines and Log are required.
type Options struct {
	Folder      string // folder of the records
	Machines    Machines
	Limits      Limits // limits for all sandboxes together
	Environment string // environment of the template "minimal"; default DefaultEnvironment
	Log         *slog.Logger
	// Operations are the operations of HostService.Call by method. Without one, Call fails with
	// Unsupported.
	Operations map[string]operations.RemoteOperation

	clock func() time.Time // tests set it; default time.Now
}

// DefaultEnvironment is the default of Options.Environment.
const DefaultEnvironment = "debian:12"

// Agent is a host agent. It is safe for concurrent use.
type Agent struct {
	options Options
	lock    *flock.Lock
	ctx     context.Context // context of background work
	stop    context.CancelFunc
	// draining is a context that is done when the shutdown begins. That ends the streams that only
	// observe.
	draining context.Context
	drain    context.CancelFunc
	working  sync.WaitGroup

	mu             sync.Mutex
	sandboxes      map[string]*sandbox
	templates      map[templateKey]*template
	templateLocks  map[templateKey]chan struct{} // templates that are being made or deleted; each channel is closed when that is done
	closing        bool                          // new sandboxes are rejected.
	closingChanged chan struct{}                 // closed and replaced when closing changes
	terminating    sync.Mutex                    // serializes calls of Terminate
	terminated     chan struct{}
	once           sync.Once

	watchers watchers

	reporting  sync.Mutex // serializes reports of automatic pauses
	lastReport int64      // sequence number of the last such report
}

// Open starts a host agent. It loads the sandboxes that are recorded in the folder. It fails with
// Precondition if another host agent uses the folder.
func Open(ctx context.Context, o Options) (*Agent, error) {
	if o.Environment == "" {
		o.Environment = DefaultEnvironment
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	if err := os.MkdirAll(filepath.Join(o.Folder, sandboxesFolder), 0o700); err != nil {
		return nil, fault.Wrap(err, "open the host agent", "")
	}
	lock, err := flock.Try(filepath.Join(o.Folder, "lock"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil, fault.New(fault.Precondition, "open the host agent", o.Folder, "another host agent uses this folder").WithHint("set PYRO_STATE_DIR to run a second one")
	}
	if err != nil {
		return nil, fault.Wrap(err, "open the host agent", o.Folder)
	}
	a := &Agent{
		options: o, lock: lock, sandboxes: map[string]*sandbox{}, templates: map[templateKey]*template{}, templateLocks: map[templateKey]chan struct{}{},
		terminated: make(chan struct{}), closingChanged: make(chan struct{}),
	}
	a.ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	a.draining, a.drain = context.WithCancel(a.ctx)
	if err := a.recover(ctx); err != nil {
		a.Close()
		return nil, err
	}
	a.working.Go(func() { every(a.ctx, saveEvery, a.saveAll) })
	a.working.Go(func() { every(a.ctx, reapEvery, a.reap) })
	a.working.Go(func() { every(a.ctx, sampleEvery, a.sampleAll) })
	return a, nil
}

// recover reads the records and removes sandboxes whose creation was interrupted.
func (a *Agent) recover(ctx context.Context) error {
	if err := a.loadTemplates(ctx); err != nil {
		return err
	}
	records, damaged, err := readRecords(filepath.Join(a.options.Folder, sandboxesFolder))
	if err != nil {
		return err
	}
	for _, err := range damaged { // the other sandboxes are served
		a.options.Log.Error("a sandbox is not served", "error", err, "hint", fault.HintOf(err))
	}
	for _, r := range records {
		if r.WorkspaceID == "" {
			if err := a.discard(ctx, r); err != nil { // if that fails, the sandbox stays pending until a client destroys it
				a.options.Log.Error("remove an incomplete sandbox", "sandbox", r.SandboxID, "error", err)
				a.sandboxes[r.SandboxID] = a.newSandbox(r)
			}
			continue
		}
		if a.isTemplate(r.WorkspaceID) {
			if err := a.removeRecord(r.SandboxID); err != nil {
				return err
			}
			continue
		}
		s := a.newSandbox(r)
		if err := s.metrics.load(a.metricsFile(r.SandboxID)); err != nil {
			a.options.Log.Warn("the metrics of a sandbox are lost", "sandbox", r.SandboxID, "error", err)
		}
		a.sandboxes[r.SandboxID] = s
		if status, _ := a.status(s); status == statusRunning { // this also sets s.paused, so that admit does not count the memory of a paused sandbox
			a.awaitEnd(s)
		}
		a.startSampling(s)
	}
	return nil
}

// discard removes a sandbox whose creation was interrupted.
func (a *Agent) discard(ctx context.Context, r record) error {
	a.options.Log.Warn("remove a sandbox whose creation was interrupted", "sandbox", r.SandboxID)
	if err := a.deleteMachine(ctx, r); err != nil {
		return err
	}
	return a.removeRecord(r.SandboxID)
}

// Terminated returns a channel. It is closed after a client has called Terminate and all sandboxes
// are destroyed.
func (a *Agent) Terminated() <-chan struct{} { return a.terminated }

// setClosing sets whether new sandboxes are rejected.
func (a *Agent) setClosing(closing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing != closing {
		a.closing = closing
		close(a.closingChanged)
		a.closingChanged = make(chan struct{})
	}
}

// Close stops the host agent. Sandboxes keep running.
func (a *Agent) Close() error {
	a.setClosing(true)
	a.stop()
	a.working.Wait()
	a.mu.Lock()
	all := a.sandboxes
	a.sandboxes = map[string]*sandbox{}
	a.mu.Unlock()
	var errs []error
	for _, s := range all {
		s.stopSampling()
		errs = append(errs, a.save(s), s.metrics.save(a.metricsFile(s.id())))
	}
	a.lock.Release()
	return errors.Join(errs...)
}

// saveEvery is the interval at which changed records are saved.
const saveEvery = 5 * time.Second

func (a *Agent) saveAll() {
	for _, s := range a.all() {
		if err := a.save(s); err != nil {
			a.options.Log.Error("save the record of a sandbox", "sandbox", s.id(), "error", err)
		}
	}
}

// every calls the function do at each interval until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}
