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

// Claim records the client that uses a session. The contract calls a claim a lease. All clients can
// use a session that has no claim. Claims coordinate clients; the owner and the scope restrict
// them.
type Claim struct {
	Client string    `json:"client_id,omitempty"` // empty: no client has claimed the session
	Since  time.Time `json:"since,omitzero"`
	Last   Transfer  `json:"last,omitzero"`
}

// Transfer records how a claim last went from one client to another.
type Transfer struct {
	Event  string    `json:"event"` // "handoff" or "takeover"
	From   string    `json:"from_client_id"`
	To     string    `json:"to_client_id"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Claims returns the claims of all sessions by session ID. All claims are in one file, because
// sessions that share a claim transfer it together.
func (m *Manager) Claims() (map[string]Claim, error) {
	all := map[string]Claim{}
	err := Folder(m.Root).read(claimsFile, &all)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

const claimsFile = ".leases.json"

// claimed is a session and its claim.
type claimed struct {
	Info
	claim Claim
}

// Attach claims a session for a client. It does nothing if that client already has the claim.
// Precondition: another client has claimed this session, or a session that shares the claim.
func (m *Manager) Attach(ctx context.Context, id, client string) error {
	return m.changeClaims(ctx, id, Event{Event: "attach", Client: client}, func(one *claimed, group []*claimed, now time.Time) error {
		for _, other := range group {
			if held := other.claim.Client; held != "" && held != client {
				return fault.Newf(fault.Precondition, "it is attached to the client %q", held).WithHint("pty_handoff by that client, or pty_takeover")
			}
		}
		if one.claim.Client == "" {
			one.claim.Client, one.claim.Since = client, now
		}
		return nil
	})
}

// Detach releases the claim of a client. It does nothing if there is no claim. Precondition:
// another client has the claim.
func (m *Manager) Detach(ctx context.Context, id, client string) error {
	return m.changeClaims(ctx, id, Event{Event: "detach", Client: client}, func(one *claimed, _ []*claimed, _ time.Time) error {
		if held := one.claim.Client; held != "" && held != client {
			return errOtherClient(held)
		}
		one.claim.Client, one.claim.Since = "", time.Time{}
		return nil
	})
}

// Handoff transfers the claim of a client to the client in target. It does so for all sessions that
// share the claim.
func (m *Manager) Handoff(ctx context.Context, id, client, target, reason string) error {
	return m.transfer(ctx, id, "handoff", client, target, reason)
}

// Takeover transfers a claim to a client from another client, which is named by the parameter from.
// It does so for all sessions that share the claim.
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
		return fault.New(fault.Invalid, event, id, "the reason has more than 1,000 bytes")
	}
	return m.changeClaims(ctx, id, e, func(one *claimed, group []*claimed, now time.Time) error {
		switch one.claim.Client {
		case "":
			return fault.Newf(fault.Precondition, "it is not attached").WithHint("pty_attach")
		case from:
		default:
			return errOtherClient(one.claim.Client)
		}
		for _, other := range group {
			if other.claim.Client != "" {
				other.claim = Claim{to, now, Transfer{event, from, to, reason, now}}
			}
		}
		return nil
	})
}

// CheckClaim returns an error if another client has claimed the session.
func (m *Manager) CheckClaim(id, client string) error {
	all, err := m.Claims()
	l := all[id]
	if err != nil || l.Client == "" || l.Client == client {
		return err
	}
	if client == "" {
		return fault.New(fault.Precondition, "use session", id, "client_id is required: it is attached to a client").WithHint("pty_status shows which")
	}
	return fault.Wrap(errOtherClient(l.Client), "use session", id)
}

func errOtherClient(held string) error {
	return fault.Newf(fault.Precondition, "it is attached to the client %q", held).WithHint("pty_status shows the lease; pty_takeover takes it")
}

func checkClient(client string) error {
	if client == "" || len(client) > MaxLabel {
		return fault.Newf(fault.Invalid, "client_id must be 1 to %d bytes", MaxLabel)
	}
	return nil
}

// changeClaims changes the claim of a session and of the sessions that share the claim. It holds
// the lock on the claims of all sessions during the change.
func (m *Manager) changeClaims(ctx context.Context, id string, e Event, change func(one *claimed, group []*claimed, now time.Time) error) error {
	if err := checkClient(e.Client); err != nil {
		return err
	}
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".leases"), flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := m.Claims()
	if err != nil {
		return err
	}
	one, group, err := m.claimGroup(id, all)
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
		if all[l.ID] != l.claim {
			changed = append(changed, l.Info)
		}
		all[l.ID] = l.claim
	}
	if err := Folder(m.Root).write(claimsFile, all); err != nil {
		return fault.Wrap(err, "use session", id)
	}
	for _, info := range changed {
		m.AppendEvent(info, e)
	}
	return nil
}

// claimGroup returns a session, and the running sessions that share the claim of that session. The
// group includes the session itself.
func (m *Manager) claimGroup(id string, claims map[string]Claim) (one *claimed, group []*claimed, err error) {
	info, err := m.Get(id)
	if err != nil {
		return nil, nil, err
	}
	one = &claimed{info, claims[id]}
	group = []*claimed{one}
	if info.TmuxWorkspace == "" {
		return one, group, nil
	}
	all, err := m.List()
	for _, other := range all {
		if other.ID != id && other.Running() && other.Backend == info.Backend && other.TmuxWorkspace == info.TmuxWorkspace && other.Owner == info.Owner {
			group = append(group, &claimed{other, claims[other.ID]})
		}
	}
	return one, group, err
}
