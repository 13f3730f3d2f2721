// Package hostagent is the service by which a control plane uses the machines of one host: proto/hostagent/v1, as gRPC, gRPC-Web and Connect on one port.
//
// A sandbox is a workspace, whose supervisor owns its machine: the host agent may end, crash or be replaced, and its sandboxes go on. What it knows of them beside
// is a record for each, in a folder of its own below the state folder; when it comes back it finds them there. One that was being made when it died is removed then.
// Whether one runs or is paused is not in its record, but looked for: so it is true whoever died while that changed. Templates are workspaces that never run, and what
// is known of one is in the same record of the database as what it holds.
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
)

// Options say how a host agent works. Folder, Machines and Log have to be set.
type Options struct {
	Folder      string // where its records are
	Machines    Machines
	Limits      Limits // what all sandboxes together may be promised
	Environment string // what the template minimal is; default DefaultEnvironment
	Log         *slog.Logger

	clock func() time.Time // of tests; nil: the host's
}

// DefaultEnvironment is what the template minimal is where nothing else is said.
const DefaultEnvironment = "debian:12"

// Agent is a host agent. It is safe for concurrent use.
type Agent struct {
	options Options
	lock    *flock.Lock
	ctx     context.Context // of what it does by itself
	stop    context.CancelFunc
	leaving context.Context // ends when it is no longer served: who only watches is told to come back
	leave   context.CancelFunc
	working sync.WaitGroup

	mu          sync.Mutex
	sandboxes   map[string]*sandbox
	templates   map[templateKey]*template
	keeping     map[templateKey]chan struct{} // those that are being made or deleted; closed at the end of that
	refused     bool                          // it is being ended: no sandbox is made any more
	terminating sync.Mutex                    // held while a client has all of them destroyed
	terminated  chan struct{}
	once        sync.Once

	telling sync.Mutex // held while it is told which sandboxes are paused because of inactivity
	told    int64      // the last number of one
}

// Open begins with the sandboxes that are there. Only one host agent can have a folder: Precondition.
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
		return nil, fault.New(fault.Precondition, "open the host agent", o.Folder, "another one has this folder").WithHint("set PYRO_STATE_DIR to have a second one")
	}
	if err != nil {
		return nil, fault.Wrap(err, "open the host agent", o.Folder)
	}
	a := &Agent{
		options: o, lock: lock, sandboxes: map[string]*sandbox{}, templates: map[templateKey]*template{}, keeping: map[templateKey]chan struct{}{},
		terminated: make(chan struct{}),
	}
	a.ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	a.leaving, a.leave = context.WithCancel(a.ctx)
	if err := a.recover(ctx); err != nil {
		a.Close()
		return nil, err
	}
	a.working.Go(func() { every(a.ctx, noteEvery, a.noteAll) })
	a.working.Go(func() { every(a.ctx, reapEvery, a.reap) })
	a.working.Go(func() { every(a.ctx, sampleEvery, a.sampleAll) })
	return a, nil
}

// recover reads the records, and removes what was never a whole sandbox.
func (a *Agent) recover(ctx context.Context) error {
	if err := a.loadTemplates(ctx); err != nil {
		return err
	}
	records, damaged, err := readRecords(filepath.Join(a.options.Folder, sandboxesFolder))
	if err != nil {
		return err
	}
	for _, err := range damaged { // the others are served all the same
		a.options.Log.Error("a sandbox is not served", "error", err, "hint", fault.HintOf(err))
	}
	for _, r := range records {
		if r.WorkspaceID == "" {
			if err := a.discard(ctx, r); err != nil { // it is pending until it is destroyed
				a.options.Log.Error("remove what is left of a sandbox", "sandbox", r.SandboxID, "error", err)
				a.sandboxes[r.SandboxID] = newSandbox(r, a.options.clock)
			}
			continue
		}
		if a.became(r.WorkspaceID) {
			if err := a.removeRecord(r.SandboxID); err != nil {
				return err
			}
			continue
		}
		s := newSandbox(r, a.options.clock)
		if err := s.metrics.load(a.metricsFile(r.SandboxID)); err != nil {
			a.options.Log.Warn("what a sandbox took is forgotten", "sandbox", r.SandboxID, "error", err)
		}
		a.sandboxes[r.SandboxID] = s
		a.status(s) // what is paused takes no memory
		a.watch(s)
	}
	return nil
}

// discard removes what is left of a sandbox that was never whole.
func (a *Agent) discard(ctx context.Context, r record) error {
	a.options.Log.Warn("remove a sandbox that was being made when the host agent ended", "sandbox", r.SandboxID)
	if err := a.deleteMachine(ctx, r); err != nil {
		return err
	}
	return a.removeRecord(r.SandboxID)
}

// Terminated is closed when a client has had all sandboxes destroyed and wants the host agent to end.
func (a *Agent) Terminated() <-chan struct{} { return a.terminated }

// refuse has no sandbox be made any more, or again.
func (a *Agent) refuse(refused bool) {
	a.mu.Lock()
	a.refused = refused
	a.mu.Unlock()
}

// Close ends the host agent, and no sandbox.
func (a *Agent) Close() error {
	a.refuse(true)
	a.stop()
	a.working.Wait()
	a.mu.Lock()
	all := a.sandboxes
	a.sandboxes = map[string]*sandbox{}
	a.mu.Unlock()
	var errs []error
	for _, s := range all {
		s.unwatch()
		errs = append(errs, a.note(s), s.metrics.save(a.metricsFile(s.id())))
	}
	a.lock.Release()
	return errors.Join(errs...)
}

// noteEvery is how often what has changed of a sandbox by being used is noted.
const noteEvery = 5 * time.Second

func (a *Agent) noteAll() {
	for _, s := range a.all() {
		if err := a.note(s); err != nil {
			a.options.Log.Error("note when a sandbox was used", "sandbox", s.id(), "error", err)
		}
	}
}

// every does something at intervals until the context ends.
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
