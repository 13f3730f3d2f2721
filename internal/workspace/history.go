package workspace

import (
	"context"
	"slices"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// History gives the commands that were run since the workspace was created or last reset.
func (m *Manager) History(ctx context.Context, id string) ([]store.Command, error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return nil, err
	}
	return m.Store.Commands(ctx, id)
}

// FollowHistory passes on the history of a workspace, and then each command when it has ended, until the machine
// is stopped or paused. It says which of them, and why. It does not use the workspace: a paused one stays paused.
func (m *Manager) FollowHistory(ctx context.Context, id string, each func(store.Command) error) (state State, reason string, err error) {
	if _, err := m.record(ctx, store.KindWorkspace, id); err != nil {
		return "", "", err
	}
	h := &historyReader{store: m.Store, id: id, each: each}
	state, err = m.followHistory(ctx, id, func() error { return h.read(ctx) })
	if err == nil {
		err = h.read(ctx)
	}
	if err != nil {
		return "", "", err
	}
	if _, err := m.Store.Workspace(ctx, id); fault.KindOf(err) == fault.NotFound {
		return Stopped, deleted, nil
	}
	return state, m.lastEnd(ctx, m.folder(id)), nil
}

// followHistory calls changed when commands have ended, and tells what the machine is afterwards.
func (m *Manager) followHistory(ctx context.Context, id string, changed func() error) (State, error) {
	c, err := remote.Watch(ctx, m.folder(id))
	if fault.KindOf(err) == fault.Precondition { // it does not run
		w, err := m.Store.Workspace(ctx, id)
		if err == nil && w.Disks.Memory != "" {
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

// historyReader reads a growing history. No read repeats the output that an earlier one has read.
type historyReader struct {
	store   *store.Store
	id      string
	each    func(store.Command) error
	begun   bool
	last    int   // the highest number that was read
	running []int // the commands that had no end when they were read
}

// read passes on all commands the first time, and then those that have ended since.
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
