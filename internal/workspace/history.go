package workspace

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// History returns the commands that have run since the workspace was created or last reset.
func (m *Manager) History(ctx context.Context, id string) ([]Command, error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return nil, err
	}
	state, err := m.machineState(ctx, id) // read before the history, because the end of a command is recorded before the end of its machine
	if err != nil {
		return nil, err
	}
	found, err := m.Store.Commands(ctx, id)
	all := make([]Command, 0, len(found))
	for _, c := range found {
		all = append(all, commandNow(c, state))
	}
	return all, err
}

// FollowHistory calls the function each with every command in the history, and then with every
// command that ends. It returns when the machine is stopped or paused. It returns the machine's
// state and the reason. Following does not count as use.
func (m *Manager) FollowHistory(ctx context.Context, id string, each func(Command) error) (state State, reason string, err error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return "", "", err
	}
	begun, err := m.machineState(ctx, id)
	if err != nil {
		return "", "", err
	}
	h := &historyReader{store: m.Store, id: id, each: func(c store.Command) error { return each(commandNow(c, begun)) }}
	state, err = m.followHistory(ctx, id, func() error { return h.read(ctx) })
	if err == nil {
		err = h.read(ctx)
	}
	if err != nil {
		return "", "", err
	}
	// A deletion removes the record before the reason, so look for the record afterwards.
	reason = m.lastEnd(ctx, m.folder(id))
	if _, err := m.Store.Workspace(ctx, id); fault.KindOf(err) == fault.NotFound {
		return Stopped, deleted, nil
	}
	return state, reason, nil
}

// followHistory calls the function changed immediately, and again when commands have ended. It
// returns the final state of the machine.
func (m *Manager) followHistory(ctx context.Context, id string, changed func() error) (State, error) {
	c, err := remote.Watch(ctx, m.folder(id))
	if fault.KindOf(err) == fault.Precondition { // the machine does not run
		w, err := m.Store.Workspace(ctx, id)
		if err == nil && w.Disks.Checkpoint != "" {
			return Paused, nil
		}
		if fault.KindOf(err) == fault.NotFound {
			err = nil
		}
		return Stopped, err
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	paused, err := c.FollowHistory(ctx, changed)
	if paused {
		return Paused, err
	}
	return Stopped, fault.Wrap(err, "follow the history of workspace", id)
}

// historyReader reads a growing history. It reads the output of each ended command only once.
type historyReader struct {
	store   *store.Store
	id      string
	each    func(store.Command) error
	begun   bool
	last    int   // the highest sequence number so far.
	running []int // sequence numbers of the commands that have not ended.
}

// read calls h.each with all commands the first time. Later it calls h.each with the commands that
// have ended since the previous call.
func (h *historyReader) read(ctx context.Context) error {
	all, err := h.store.CommandsAfter(ctx, h.id, h.last, h.running)
	if err != nil {
		return err
	}
	for _, c := range all {
		h.last = max(h.last, c.Sequence)
		h.running = slices.DeleteFunc(h.running, func(n int) bool { return n == c.Sequence })
		if c.EndedAt.IsZero() {
			h.running = append(h.running, c.Sequence)
		}
		if !c.EndedAt.IsZero() || !h.begun {
			if err := h.each(c); err != nil {
				return err
			}
		}
	}
	h.begun = true
	return nil
}
