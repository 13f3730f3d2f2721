package control

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
	hostv1 "github.com/pyro-mcp/pyro/internal/gen/host/v1"
)

// Reconcile compares the records with each host and finishes interrupted operations. It returns the
// errors of hosts that do not answer, and of single sandboxes. It can be called again at any time.
func (c *Control) Reconcile(ctx context.Context) error {
	var errs []error
	for id, h := range c.hosts {
		errs = append(errs, c.reconcileTemplates(ctx, id, h), c.reconcileHost(ctx, id, h))
	}
	return errors.Join(errs...)
}

func (c *Control) reconcileHost(ctx context.Context, host string, h Host) error {
	there, err := hostStates(ctx, h, "")
	c.answered(host, err)
	if err != nil {
		return fault.Wrap(err, "reconcile host", h.Name)
	}
	outOfSync, err := c.outOfSync(ctx, host, there)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range outOfSync {
		errs = append(errs, c.compare(ctx, host, h, id, nil))
	}
	return errors.Join(errs...)
}

// hostStates returns the states of the sandboxes of a host by ID. If only is not empty, it returns
// only the state of this sandbox.
func hostStates(ctx context.Context, h Host, only string) (map[string]*hostv1.WatchResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.Client.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{SandboxId: only}))
	if err != nil {
		return nil, FromHost(err)
	}
	defer stream.Close()
	return untilSynced(stream)
}

// untilSynced reads a stream until the host has sent the states of all sandboxes, and returns these
// states.
func untilSynced(stream *connect.ServerStreamForClient[hostv1.WatchResponse]) (map[string]*hostv1.WatchResponse, error) {
	there := map[string]*hostv1.WatchResponse{}
	for stream.Receive() {
		m := stream.Msg()
		switch {
		case m.Synced:
			return there, nil
		case m.Status == "":
			delete(there, m.SandboxId)
		default:
			there[m.SandboxId] = m
		}
	}
	if err := stream.Err(); err != nil {
		return nil, FromHost(err)
	}
	return nil, FromHost(io.ErrUnexpectedEOF)
}

// outOfSync returns the IDs of the sandboxes of a host whose records differ from the states of the
// host, or are being changed. For the other sandboxes, it records the last activity and the sent
// bytes.
func (c *Control) outOfSync(ctx context.Context, host string, there map[string]*hostv1.WatchResponse) (ids []string, err error) {
	c.mu.Lock()
	changing := slices.Collect(maps.Keys(c.locks)) // their records can become older than the states
	c.mu.Unlock()
	all, err := c.store.SandboxesOf(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if !inSync(b, there[b.ID]) || slices.Contains(changing, b.ID) {
			ids = append(ids, b.ID)
		} else if err := c.observe(ctx, b, there[b.ID]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// observe records the time of a sandbox's last activity, and the bytes that it has sent.
func (c *Control) observe(ctx context.Context, b store.Sandbox, there *hostv1.WatchResponse) error {
	if there == nil {
		return nil
	}
	if at := time.Unix(there.LastActiveAtUnix, 0); at.After(b.ActiveAt) {
		if err := c.store.SetActive(ctx, b.ID, at); err != nil {
			return err
		}
	}
	return c.countSent(ctx, b, there)
}

// compare brings one sandbox to its wanted state. If an operation is changing the sandbox, compare
// does nothing, but the follower of the host compares the sandbox at the end of the operation.
//
// reported is a state that the host has sent, or nil. If it agrees with the record, compare does
// not ask the host, because the host sends each later state too. If it differs, the reported state
// can be older than the record. So compare then asks the host while no operation changes the
// sandbox.
func (c *Control) compare(ctx context.Context, host string, h Host, id string, reported *hostv1.WatchResponse) error {
	unlock, ok := c.tryLock(id, host, id)
	if !ok {
		return nil
	}
	defer unlock()
	b, err := c.store.Record(ctx, id)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	there := reported
	if there.GetStatus() == "" || !inSync(b, there) {
		states, err := hostStates(ctx, h, id)
		if err != nil {
			return fault.Wrap(err, "reconcile sandbox", id)
		}
		there = states[id]
	}
	err = c.observe(ctx, b, there)
	switch {
	case err != nil:
	case inSync(b, there):
		err = c.pauseSpender(ctx, b, there.GetStatus())
	default:
		err = c.reconcile(ctx, h, b, there)
	}
	return fault.Wrap(err, "reconcile sandbox", id)
}

// reconcile brings one sandbox to its wanted state. there is the state of the sandbox on the host,
// or nil if the host has no such sandbox. The caller holds the sandbox's lock.
func (c *Control) reconcile(ctx context.Context, h Host, b store.Sandbox, there *hostv1.WatchResponse) (err error) {
	switch {
	case b.Wanted == store.WantDeleted && there == nil, there == nil && !b.Made:
		// The host has deleted the sandbox, or its creation was interrupted before it reached the
		// host. In the second case no client got its ID.
		return c.store.Forget(ctx, b.ID)
	case b.Wanted == store.WantDeleted:
		return c.destroy(ctx, h, b)
	case there == nil:
		return c.store.Report(ctx, b.ID, StatusMissing, b.StartedAt, b.ActiveAt, c.clock().UTC())
	case there.Status == store.StatusPending:
		return nil // its host is still creating it, and will report when it is created
	}
	status := there.Status
	switch {
	case b.Wanted == store.WantRunning && b.Status == statusPaused && (status == statusPaused || status == statusRunning):
		// The resume was interrupted. If a process was killed while it resumed the sandbox, the
		// machine may run now and be paused again soon. Then this call resumes it again.
		status, err = resume(ctx, h, b)
	case status == statusRunning && b.Wanted == store.WantPaused && b.Status != statusPaused: // the pause was interrupted
		status, err = pause(ctx, h, b)
	case status == statusPaused && b.Wanted == store.WantRunning: // the host has paused it, because it was not used
		_, err = c.store.SetWanted(ctx, b.TeamID, b.ID, store.WantPaused, c.clock().UTC())
	case status == statusRunning && b.Wanted == store.WantPaused: // the host has resumed it, because it was used
		_, err = c.store.SetWanted(ctx, b.TeamID, b.ID, store.WantRunning, c.clock().UTC())
		if fault.KindOf(err) == fault.Exhausted {
			status, err = pause(ctx, h, b)
		}
	}
	if err != nil {
		return err
	}
	started, active := b.StartedAt, time.Unix(there.LastActiveAtUnix, 0)
	if started.IsZero() {
		started = b.CreatedAt
	}
	return c.store.Report(ctx, b.ID, status, started, active, c.clock().UTC())
}

// inSync reports whether the record of a sandbox agrees with its host, apart from the time of the
// last activity.
func inSync(b store.Sandbox, there *hostv1.WatchResponse) bool {
	switch {
	case !b.Made || b.Wanted == store.WantDeleted:
		return false
	case there == nil:
		return b.Status == StatusMissing
	case b.Status != there.Status:
		return false
	}
	return string(b.Wanted) == there.Status || there.Status != statusRunning && there.Status != statusPaused
}
