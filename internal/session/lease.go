package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Lease says which client uses a session. Who has none in its way may use it: it coordinates clients, and keeps nobody out who is let in by owner and scope.
type Lease struct {
	Client string    `json:"client_id,omitempty"` // empty: none
	Since  time.Time `json:"since,omitzero"`
	Last   Transfer  `json:"last,omitzero"`
}

// Transfer is how a lease last went from one client to another.
type Transfer struct {
	Event  string    `json:"event"` // handoff or takeover
	From   string    `json:"from_client_id"`
	To     string    `json:"to_client_id"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Leases are those of all sessions, by their ids. They are in one file: what several sessions share is given on as a whole.
func (m *Manager) Leases() (map[string]Lease, error) {
	all := map[string]Lease{}
	err := Folder(m.Root).read(leasesFile, &all)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

const leasesFile = ".leases.json"

// leased is a session with its lease, of those that have one in common.
type leased struct {
	Info
	lease Lease
}

// Attach gives a client the lease of a session. Again for the same client it is no error; for another one it is, Precondition, be it for a session that shares the lease.
func (m *Manager) Attach(ctx context.Context, id, client string) error {
	return m.leases(ctx, id, Event{Event: "attach", Client: client}, func(one *leased, group []*leased, now time.Time) error {
		for _, other := range group {
			if held := other.lease.Client; held != "" && held != client {
				return fault.Newf(fault.Precondition, "it is attached to the client %q", held).WithHint("pty_handoff by that client, or pty_takeover")
			}
		}
		if one.lease.Client == "" {
			one.lease.Client, one.lease.Since = client, now
		}
		return nil
	})
}

// Detach gives a lease back. Without one it is no error; for another client it is.
func (m *Manager) Detach(ctx context.Context, id, client string) error {
	return m.leases(ctx, id, Event{Event: "detach", Client: client}, func(one *leased, _ []*leased, _ time.Time) error {
		if held := one.lease.Client; held != "" && held != client {
			return wrongClient(held)
		}
		one.lease.Client, one.lease.Since = "", time.Time{}
		return nil
	})
}

// Handoff gives the lease that a client has to another, with those of all sessions that share it.
func (m *Manager) Handoff(ctx context.Context, id, client, target, reason string) error {
	return m.transfer(ctx, id, "handoff", client, target, reason)
}

// Takeover takes the lease that a client has, with those of all sessions that share it.
func (m *Manager) Takeover(ctx context.Context, id, client, from, reason string) error {
	return m.transfer(ctx, id, "takeover", from, client, reason)
}

func (m *Manager) transfer(ctx context.Context, id, event, from, to, reason string) error {
	if from == to {
		return fault.New(fault.Invalid, event, id, "both clients are %q", to)
	}
	if err := checkClient(from); err != nil {
		return err
	}
	if err := checkClient(to); err != nil {
		return err
	}
	e := Event{Event: event, Client: from, Target: to, Reason: reason}
	if event == "takeover" {
		e = Event{Event: event, Client: to, From: from, Reason: reason}
	}
	if len(reason) > 1000 {
		return fault.New(fault.Invalid, event, id, "a reason may have 1,000 bytes")
	}
	return m.leases(ctx, id, e, func(one *leased, group []*leased, now time.Time) error {
		switch one.lease.Client {
		case "":
			return fault.Newf(fault.Precondition, "it is not attached").WithHint("pty_attach")
		case from:
		default:
			return wrongClient(one.lease.Client)
		}
		for _, other := range group {
			if other.lease.Client != "" {
				other.lease = Lease{to, now, Transfer{event, from, to, reason, now}}
			}
		}
		return nil
	})
}

// CheckLease refuses a client that is not the one which a session is attached to, if it is.
func (m *Manager) CheckLease(id, client string) error {
	all, err := m.Leases()
	l := all[id]
	if err != nil || l.Client == "" || l.Client == client {
		return err
	}
	if client == "" {
		return fault.New(fault.Precondition, "use session", id, "client_id is required: it is attached to a client").WithHint("pty_status tells which")
	}
	return fault.Wrap(wrongClient(l.Client), "use session", id)
}

func wrongClient(held string) error {
	return fault.Newf(fault.Precondition, "it is attached to the client %q", held).WithHint("pty_status tells of the lease; pty_takeover takes it")
}

func checkClient(client string) error {
	if client == "" || len(client) > MaxLabel {
		return fault.Newf(fault.Invalid, "client_id must be 1 to %d bytes", MaxLabel)
	}
	return nil
}

// leases changes the leases of a session and of those that share its lease, one change after the other.
func (m *Manager) leases(ctx context.Context, id string, e Event, change func(one *leased, group []*leased, now time.Time) error) error {
	if err := checkClient(e.Client); err != nil {
		return err
	}
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".leases"), flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := m.Leases()
	if err != nil {
		return err
	}
	one, group, err := m.sharing(id, all)
	if err != nil {
		return err
	}
	if !one.Running() {
		return fault.New(fault.Precondition, "use session", id, "it has ended")
	}
	if err := change(one, group, time.Now().UTC()); err != nil {
		return fault.Wrap(err, "use session", id)
	}
	for known := range all {
		if _, err := os.Stat(filepath.Join(m.Root, known)); errors.Is(err, fs.ErrNotExist) {
			delete(all, known)
		}
	}
	var changed []Info
	for _, l := range group {
		if all[l.ID] != l.lease {
			changed = append(changed, l.Info)
		}
		all[l.ID] = l.lease
	}
	if err := Folder(m.Root).write(leasesFile, all); err != nil {
		return fault.Wrap(err, "use session", id)
	}
	for _, info := range changed {
		m.Note(info, e)
	}
	return nil
}

// sharing gives a session, and all that run and share its lease, itself among them.
func (m *Manager) sharing(id string, leases map[string]Lease) (one *leased, group []*leased, err error) {
	info, err := m.Get(id)
	if err != nil {
		return nil, nil, err
	}
	one = &leased{info, leases[id]}
	group = []*leased{one}
	if info.TmuxWorkspace == "" {
		return one, group, nil
	}
	all, err := m.List()
	for _, other := range all {
		if other.ID != id && other.Running() && other.Backend == info.Backend && other.TmuxWorkspace == info.TmuxWorkspace && other.Owner == info.Owner {
			group = append(group, &leased{other, leases[other.ID]})
		}
	}
	return one, group, err
}
