package hostagent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// sandbox is one sandbox.
type sandbox struct {
	name    string
	created time.Time
	clock   func() time.Time
	metrics metrics
	changes chan struct{}           // holds a token while it is made another: created, paused, resumed, destroyed
	watcher atomic.Pointer[watcher] // nil: nobody samples what it takes
	writing sync.Mutex              // held while its record is written, so that none overwrites a later one

	mu      sync.Mutex
	is      record
	busy    int           // calls that are going on
	noted   bool          // what is known of it is on the disk
	gone    bool          // nothing is
	resting bool          // it is paused, as far as is known: it takes neither memory nor processors
	turning chan struct{} // closed when a pause or a resume has come to its end; nil: none is going on
	shown   string        // its state until then
	turned  time.Time     // when the last one had come to its end
	spared  time.Time     // until then it is not paused for inactivity
	seen    time.Time     // when a list last saw that it runs; zero where it was made another since

	told int64 // that it is paused because of inactivity has this number; 0: it was not told yet. Of the agent's telling
}

func newSandbox(r record, clock func() time.Time) *sandbox {
	return &sandbox{name: r.SandboxID, created: r.CreatedAt, clock: clock, changes: make(chan struct{}, 1), is: r, noted: true}
}

func (s *sandbox) id() string { return s.name }

// record is what is known of it now.
func (s *sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.is.LastActive = s.clock()
	}
	return s.is
}

// has says what machine it has from now on.
func (s *sandbox) has(made Made, since time.Time) {
	s.mu.Lock()
	s.is.WorkspaceID, s.is.Isolation, s.is.LastActive = made.ID, made.Isolation, since
	s.mu.Unlock()
}

// active says that it has gone on, for whatever it was paused.
func (s *sandbox) active() {
	s.mu.Lock()
	s.is.LastActive, s.is.Inactive, s.noted = s.clock().UTC(), false, false
	s.mu.Unlock()
}

// use says that it is being used until the function is called that it gives: for as long it is not inactive. While it is being paused or resumed it waits to see what
// becomes of that.
func (s *sandbox) use(ctx context.Context) (end func(), err error) {
	s.mu.Lock()
	for s.turning != nil {
		turning := s.turning
		s.mu.Unlock()
		select {
		case <-turning:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	if s.gone {
		s.mu.Unlock()
		return nil, errNoSandbox(s.id())
	}
	s.busy++
	s.is.LastActive, s.noted = s.clock(), false
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.busy--
		s.is.LastActive, s.noted = s.clock(), false
		s.mu.Unlock()
	}, nil
}

// due tells whether it was inactive for as long as it may be.
func (s *sandbox) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dueLocked()
}

func (s *sandbox) dueLocked() bool {
	now := s.clock()
	return s.is.TimeoutSec > 0 && s.busy == 0 && !s.resting && s.turning == nil && !s.gone && s.is.WorkspaceID != "" &&
		now.Sub(s.is.LastActive) >= time.Duration(s.is.TimeoutSec)*time.Second && !now.Before(s.spared)
}

// turn has it show a state while it is being paused or resumed, and those wait who are about to use it, until the function is called that it gives. Its change is the
// caller's.
func (s *sandbox) turn(shown string) (turned func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turnLocked(shown)
}

// turnInactive does so for a pause, unless it is used by now.
func (s *sandbox) turnInactive() (turned func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dueLocked() {
		return nil, false
	}
	return s.turnLocked(statusRunning), true
}

func (s *sandbox) turnLocked(shown string) (turned func()) {
	s.turning, s.shown = make(chan struct{}), shown
	return func() {
		s.mu.Lock()
		close(s.turning)
		s.turning, s.turned, s.seen = nil, time.Now(), time.Time{}
		s.mu.Unlock()
	}
}

// rest says whether it takes memory and processors.
func (s *sandbox) rest(resting bool) {
	s.mu.Lock()
	s.resting = resting
	s.mu.Unlock()
}

// spare keeps it from being paused for inactivity for a time.
func (s *sandbox) spare(d time.Duration) {
	s.mu.Lock()
	s.spared = s.clock().Add(d)
	s.mu.Unlock()
}

// change waits to be the only one who makes it another.
func (s *sandbox) change(ctx context.Context) (done func(), err error) {
	select {
	case s.changes <- struct{}{}:
		return func() { <-s.changes }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// alter does so for one that has to be there.
func (s *sandbox) alter(ctx context.Context) (done func(), err error) {
	if done, err = s.change(ctx); err != nil {
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

// note writes the record where it has changed. With an error that is tried again at the next time.
func (a *Agent) note(s *sandbox) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.busy > 0 {
		s.is.LastActive, s.noted = s.clock(), false
	}
	r, due := s.is, !s.noted && !s.gone && s.is.WorkspaceID != ""
	s.noted = true
	s.mu.Unlock()
	if !due {
		return nil
	}
	err := a.writeRecord(r)
	if err != nil {
		s.mu.Lock()
		s.noted = false
		s.mu.Unlock()
	}
	return err
}

// set changes the record, on the disk first.
func (a *Agent) set(s *sandbox, change func(*record)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	r, gone := s.is, s.gone
	s.mu.Unlock()
	if gone {
		return errNoSandbox(s.id())
	}
	change(&r)
	if err := a.writeRecord(r); err != nil {
		return err
	}
	s.mu.Lock()
	change(&s.is)
	s.mu.Unlock()
	return nil
}

// drop removes the record: nobody writes it any more.
func (a *Agent) drop(s *sandbox) error {
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

// find gives a sandbox by its id.
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
	return fault.New(fault.NotFound, "find sandbox", fault.Printable(id[:min(len(id), 80)]), "there is none of this id on this host").WithHint("call ListSandboxes")
}

// all gives all sandboxes, the oldest first.
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

// The states of a sandbox.
const (
	statusPending = "pending" // it is being made
	statusRunning = "running"
	statusPaused  = "paused"
	statusStopped = "stopped" // its machine has ended
)

// status tells the state of a sandbox: what becomes of one that is being paused or resumed is told when it has come about. Unavailable where it can't be told: one that
// may be paused is never said to have ended.
func (a *Agent) status(s *sandbox) (string, error) {
	s.mu.Lock()
	id, turning, shown, resting := s.is.WorkspaceID, s.turning != nil, s.shown, s.resting
	s.mu.Unlock()
	switch {
	case id == "":
		return statusPending, nil
	case turning:
		return shown, nil
	case a.options.Machines.Running(id):
		if resting { // somebody else had it go on
			s.rest(false)
		}
		return statusRunning, nil
	case resting:
		return statusPaused, nil
	}
	paused, err := a.options.Machines.Paused(a.ctx, id)
	if err != nil {
		return "", &fault.Error{Op: "look at sandbox", Subject: s.id(), Kind: fault.Unavailable, Err: err, Hint: "try again"}
	}
	if paused {
		s.rest(true)
		return statusPaused, nil
	}
	return statusStopped, nil
}

// seenFor is how long a list takes what another has seen: many may ask at once for many sandboxes.
const seenFor = 20 * time.Millisecond

// listed is status for a list, which may be that much late in seeing that a machine has ended by itself.
func (a *Agent) listed(s *sandbox) (string, error) {
	s.mu.Lock()
	fresh := s.turning == nil && time.Since(s.seen) < seenFor
	s.mu.Unlock()
	if fresh {
		return statusRunning, nil
	}
	began := time.Now()
	status, err := a.status(s)
	s.mu.Lock()
	if s.turning == nil && status == statusRunning && began.After(s.turned) {
		s.seen = began
	}
	s.mu.Unlock()
	return status, err
}

// needRunning is no error where it runs.
func (a *Agent) needRunning(s *sandbox) error {
	status, err := a.status(s)
	if err == nil && status != statusRunning {
		err = notRunning(status)
	}
	return err
}

// connected connects to the machine of a sandbox, which is used until end is called.
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
