package hostagent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// sandbox is one sandbox.
type sandbox struct {
	clock   func() time.Time
	metrics metrics
	changes chan struct{} // holds a token while it is made or destroyed
	over    context.CancelFunc
	watched sync.WaitGroup

	mu    sync.Mutex
	is    record
	busy  int  // calls that are going on
	noted bool // what is known of it is on the disk
	gone  bool
}

func newSandbox(r record, clock func() time.Time) *sandbox {
	return &sandbox{clock: clock, changes: make(chan struct{}, 1), over: func() {}, is: r, noted: true}
}

func (s *sandbox) id() string { return s.is.SandboxID } // which never changes

// record is what is known of it now.
func (s *sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.is.LastActive = s.clock()
	}
	return s.is
}

// use says that it is being used until the function is called that it gives: for as long it is not inactive.
func (s *sandbox) use() (end func()) {
	s.mu.Lock()
	s.busy++
	s.is.LastActive, s.noted = s.clock(), false
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.busy--
		s.is.LastActive, s.noted = s.clock(), false
		s.mu.Unlock()
	}
}

// inactive tells since when it is, and false while it is used.
func (s *sandbox) inactive() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.is.LastActive, s.busy == 0
}

// change waits to be the only one who makes or destroys it.
func (s *sandbox) change(ctx context.Context) (done func(), err error) {
	select {
	case s.changes <- struct{}{}:
		return func() { <-s.changes }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// note writes the record where it has changed.
func (a *Agent) note(s *sandbox) error {
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
	return a.writeRecord(r)
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
		return nil, fault.New(fault.NotFound, "find sandbox", fault.Printable(id[:min(len(id), 80)]), "there is none of this id on this host").WithHint("call ListSandboxes")
	}
	return s, nil
}

// all gives all sandboxes, the oldest first.
func (a *Agent) all() []*sandbox {
	a.mu.Lock()
	all := make([]*sandbox, 0, len(a.sandboxes))
	for _, s := range a.sandboxes {
		all = append(all, s)
	}
	a.mu.Unlock()
	slices.SortFunc(all, func(x, y *sandbox) int {
		a, b := x.record(), y.record()
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.SandboxID, b.SandboxID))
	})
	return all
}

// The states of a sandbox.
const (
	statusPending = "pending" // it is being made
	statusRunning = "running"
	statusStopped = "stopped" // its machine has ended
)

func (a *Agent) status(r record) string {
	switch {
	case r.WorkspaceID == "":
		return statusPending
	case a.options.Machines.Running(r.WorkspaceID):
		return statusRunning
	}
	return statusStopped
}

// connected connects to the machine of a sandbox, which is used until end is called.
func (a *Agent) connected(ctx context.Context, op, id string) (m Machine, s *sandbox, end func(), err error) {
	if s, err = a.find(id); err != nil {
		return nil, nil, nil, fault.Wrap(err, op, "")
	}
	r := s.record()
	if status := a.status(r); status != statusRunning {
		return nil, nil, nil, fault.New(fault.Precondition, op, id, "the sandbox is %s", status).WithHint("call DestroySandbox, then CreateSandbox")
	}
	used := s.use()
	if m, err = a.options.Machines.Connect(ctx, r.WorkspaceID); err != nil {
		used()
		return nil, nil, nil, fault.Wrap(err, op, id)
	}
	return m, s, func() {
		m.Close()
		used()
	}, nil
}
