package hostagent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/passive"
)

// sandbox is the host agent's state of a sandbox.
type sandbox struct {
	name       string
	created    time.Time
	clock      func() time.Time
	watchers   *watchers
	metrics    metrics
	changeLock chan struct{}           // contains a token during a creation, pause, resume or removal.
	sampler    atomic.Pointer[sampler] // nil if the sandbox is not sampled.
	writing    sync.Mutex              // locked while the record is written, so that an old record never replaces a new one.

	mu            sync.Mutex
	rec           record
	busy          int           // number of calls in progress.
	looking       int           // number of passive calls in progress, which do not count as activity.
	saved         bool          // the file contains the current record.
	gone          bool          // the sandbox was destroyed or became a template.
	paused        bool          // last known state. If set, the sandbox uses neither memory nor processors.
	transition    chan struct{} // closed at the end of a pause or resume. Nil if none is in progress.
	statusDuring  string        // state that is reported during the transition.
	transitionEnd time.Time     // end of the last transition.
	noPauseUntil  time.Time     // no automatic pause before this time.
	seenRunning   time.Time     // when cachedStatus last found the sandbox running. Zero since the last transition.
	awaited       bool          // awaitEnd waits for the end of the machine.
	useReport     *time.Timer   // the next report of activity and sent bytes. Nil if none is pending.
	useReportAt   time.Time     // when useReport fires.
	sent          sent          // number of bytes that the machine had sent when it last answered.

	// report is the sequence number of the report that the sandbox was paused automatically, or 0
	// if there was no report. It is protected by Agent.reporting.
	report int64
}

func (a *Agent) newSandbox(r record) *sandbox {
	return &sandbox{name: r.SandboxID, created: r.CreatedAt, clock: a.options.clock, watchers: &a.watchers, changeLock: make(chan struct{}, 1), rec: r, saved: true}
}

func (s *sandbox) id() string { return s.name }

// record returns the current record.
func (s *sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.rec.LastActive = s.clock()
	}
	return s.rec
}

// setMachine sets the machine of a new sandbox, and the time of its last activity.
func (s *sandbox) setMachine(made Created, since time.Time) {
	s.mu.Lock()
	s.rec.WorkspaceID, s.rec.Isolation, s.rec.LastActive = made.ID, made.Isolation, since
	s.mu.Unlock()
	s.watchers.changed(s.id())
}

// markResumed records activity and clears the mark of an automatic pause.
func (s *sandbox) markResumed() {
	s.mu.Lock()
	s.rec.LastActive, s.rec.Inactive, s.saved = s.clock().UTC(), false, false
	s.mu.Unlock()
}

// use marks the sandbox as active until the caller calls end. If a pause or resume is in progress,
// use first waits for it to finish. A passive call does not count as activity. It only delays an
// automatic pause until its end.
func (s *sandbox) use(ctx context.Context) (end func(), err error) {
	s.mu.Lock()
	for s.transition != nil {
		transition := s.transition
		s.mu.Unlock()
		select {
		case <-transition:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	if s.gone {
		s.mu.Unlock()
		return nil, errNoSandbox(s.id())
	}
	if passive.Is(ctx) {
		s.looking++
		s.mu.Unlock()
		return func() {
			s.mu.Lock()
			s.looking--
			s.mu.Unlock()
		}, nil
	}
	s.busy++
	s.touchLocked()
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.busy--
		s.touchLocked()
		s.mu.Unlock()
	}, nil
}

// touch records activity.
func (s *sandbox) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touchLocked()
}

func (s *sandbox) touchLocked() {
	s.rec.LastActive, s.saved = s.clock(), false
	s.reportUse()
}

// pauseDue reports whether the inactivity timeout has expired.
func (s *sandbox) pauseDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pauseDueLocked()
}

func (s *sandbox) pauseDueLocked() bool {
	now := s.clock()
	return s.rec.TimeoutSec > 0 && s.busy == 0 && s.looking == 0 && !s.paused && s.transition == nil && !s.gone && s.rec.WorkspaceID != "" &&
		now.Sub(s.rec.LastActive) >= time.Duration(s.rec.TimeoutSec)*time.Second && !now.Before(s.noPauseUntil)
}

// beginTransition begins a pause or resume. Until the caller calls end, status returns the state
// shown, and the method use waits. The caller must hold the change lock.
func (s *sandbox) beginTransition(shown string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginTransitionLocked(shown)
}

// beginAutoPause begins a pause if the sandbox is still inactive.
func (s *sandbox) beginAutoPause() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pauseDueLocked() {
		return nil, false
	}
	return s.beginTransitionLocked(statusRunning), true
}

func (s *sandbox) beginTransitionLocked(shown string) (end func()) {
	s.transition, s.statusDuring = make(chan struct{}), shown
	return func() {
		s.mu.Lock()
		close(s.transition)
		s.transition, s.transitionEnd, s.seenRunning = nil, time.Now(), time.Time{}
		s.mu.Unlock()
		s.watchers.changed(s.id())
	}
}

// setPaused sets whether the sandbox is paused and so uses neither memory nor processors.
func (s *sandbox) setPaused(paused bool) {
	s.mu.Lock()
	s.paused = paused
	s.mu.Unlock()
}

// delayPause prevents automatic pauses for the duration d.
func (s *sandbox) delayPause(d time.Duration) {
	s.mu.Lock()
	s.noPauseUntil = s.clock().Add(d)
	s.mu.Unlock()
}

// lockChanges acquires the change lock.
func (s *sandbox) lockChanges(ctx context.Context) (done func(), err error) {
	select {
	case s.changeLock <- struct{}{}:
		return func() { <-s.changeLock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lockExisting acquires the change lock of a sandbox. It fails with NotFound if the sandbox no
// longer exists.
func (s *sandbox) lockExisting(ctx context.Context) (done func(), err error) {
	if done, err = s.lockChanges(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		done()
		return nil, errNoSandbox(s.id())
	}
	return done, nil
}

// save writes the record if the record has changed. If save fails, the next call tries again.
func (a *Agent) save(s *sandbox) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.busy > 0 {
		s.rec.LastActive, s.saved = s.clock(), false
	}
	r, due := s.rec, !s.saved && !s.gone && s.rec.WorkspaceID != ""
	s.saved = true
	s.mu.Unlock()
	if !due {
		return nil
	}
	err := a.writeRecord(r)
	if err != nil {
		s.mu.Lock()
		s.saved = false
		s.mu.Unlock()
	}
	return err
}

// set changes the record: first the file, then the copy in memory.
func (a *Agent) set(s *sandbox, change func(*record)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	r, gone := s.rec, s.gone
	s.mu.Unlock()
	if gone {
		return errNoSandbox(s.id())
	}
	change(&r)
	if err := a.writeRecord(r); err != nil {
		return err
	}
	s.mu.Lock()
	change(&s.rec)
	s.mu.Unlock()
	return nil
}

// deleteRecord removes the record file and sets gone, so that no later save writes the file again.
func (a *Agent) deleteRecord(s *sandbox) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := a.removeRecord(s.id()); err != nil {
		return err
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	return nil
}

// find returns the sandbox with an ID. It fails with NotFound if the sandbox does not exist.
func (a *Agent) find(id string) (*sandbox, error) {
	if id == "" {
		return nil, fault.New(fault.Invalid, "find sandbox", "", "sandbox_id is missing")
	}
	a.mu.Lock()
	s := a.sandboxes[id]
	a.mu.Unlock()
	if s == nil {
		return nil, errNoSandbox(id)
	}
	return s, nil
}

func errNoSandbox(id string) error {
	return fault.New(fault.NotFound, "find sandbox", fault.Printable(id[:min(len(id), 80)]), "no sandbox of this host has this ID").WithHint("call ListSandboxes")
}

// all returns all sandboxes. The oldest comes first.
func (a *Agent) all() []*sandbox {
	a.mu.Lock()
	all := make([]*sandbox, 0, len(a.sandboxes))
	for _, s := range a.sandboxes {
		all = append(all, s)
	}
	a.mu.Unlock()
	slices.SortFunc(all, func(x, y *sandbox) int { return cmp.Or(x.created.Compare(y.created), cmp.Compare(x.name, y.name)) })
	return all
}

// connected connects to the machine of a sandbox and marks the sandbox as active until the caller
// calls end.
func (a *Agent) connected(ctx context.Context, op, id string) (m Machine, s *sandbox, end func(), err error) {
	if s, err = a.find(id); err != nil {
		return nil, nil, nil, fault.Wrap(err, op, "")
	}
	used, err := s.use(ctx)
	if err != nil {
		return nil, nil, nil, fault.Wrap(err, op, id)
	}
	if err = a.needRunning(s); err == nil {
		m, err = a.options.Machines.Connect(ctx, s.record().WorkspaceID)
	}
	if err != nil {
		used()
		return nil, nil, nil, fault.Wrap(err, op, id)
	}
	return m, s, func() {
		m.Close()
		used()
	}, nil
}
