package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session/pane"
)

// A session in tmux is adrift when its keeper was killed: its pane goes on, and what it prints goes into the log, but nobody types, and nobody ends it.

// Recover gives a session in tmux another keeper, and with it all that share its tmux workspace: those that are adrift, all of them or none. It comes back without a
// lease, of which the last transfer is still known. Where it has a keeper it is given as it is. Where what is there is not just what was kept, Precondition.
func (m *Manager) Recover(ctx context.Context, name, owner string) (Info, error) {
	info, err := m.recover(ctx, name, owner)
	return info, fault.Wrap(err, "recover session", name)
}

func (m *Manager) recover(ctx context.Context, name, owner string) (Info, error) {
	if name == "" || owner == "" {
		return Info{}, fault.Newf(fault.Invalid, "name and owner are required")
	}
	if err := os.MkdirAll(m.Root, 0o700); err != nil {
		return Info{}, err
	}
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".lock"), flock.Exclusive, nil)
	if err != nil {
		return Info{}, err
	}
	defer lock.Release()
	one, group, err := m.persisted(name, owner)
	if err != nil {
		return Info{}, err
	}
	var adrift []Info
	for _, info := range group {
		if !info.Folder.abandoned() {
			continue
		}
		found, err := info.Folder.Pane(info.Spec).Find(ctx)
		switch {
		case err != nil:
			return Info{}, fault.Newf(fault.Precondition, "what tmux has of %s is not what was kept: %w", info.ID, err)
		case found.PID != info.PID:
			return Info{}, fault.Newf(fault.Precondition, "another program runs in the pane of %s: process %d, not %d", info.ID, found.PID, info.PID)
		}
		adrift = append(adrift, info)
	}
	if len(adrift) == 0 {
		return m.Get(one.ID)
	}
	if err := m.unlease(ctx, adrift); err != nil {
		return Info{}, err
	}
	for i, info := range adrift {
		if err := m.keep(ctx, info.Folder); err != nil {
			for _, begun := range adrift[:i] {
				if pid, err := flock.Holder(begun.Folder.path("keeper.lock")); err == nil {
					unix.Kill(pid, unix.SIGKILL) // adrift again, as it was
				}
			}
			return Info{}, err
		}
	}
	return m.Get(one.ID)
}

// persisted finds the session of a name and owner that runs in tmux, and all that share its workspace.
func (m *Manager) persisted(name, owner string) (one Info, group []Info, err error) {
	all, err := m.List()
	if err != nil {
		return Info{}, nil, err
	}
	found := 0
	for _, info := range all {
		if info.Name == name && info.Owner == owner && info.Running() {
			one = info
			found++
		}
	}
	switch {
	case found == 0:
		return Info{}, nil, fault.Newf(fault.NotFound, "none of this name and owner runs").WithHint("pty_list")
	case found > 1:
		return Info{}, nil, fault.Newf(fault.Precondition, "%d of this name and owner run", found).WithHint("pty_list, pty_close")
	case one.Backend != Tmux:
		return Info{}, nil, fault.Newf(fault.Unsupported, "it is not in tmux: only sessions of backend=tmux are recovered").WithHint("pty_resume")
	case one.TmuxWorkspace == "":
		return one, []Info{one}, nil
	}
	for _, info := range all {
		if info.Backend == Tmux && info.Running() && info.Owner == owner && info.TmuxWorkspace == one.TmuxWorkspace {
			group = append(group, info)
		}
	}
	return one, group, nil
}

// unlease takes the leases of sessions, whoever has them.
func (m *Manager) unlease(ctx context.Context, sessions []Info) error {
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".leases"), flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := m.Leases()
	if err != nil {
		return err
	}
	for _, info := range sessions {
		if l, ok := all[info.ID]; ok {
			all[info.ID] = Lease{Last: l.Last}
		}
	}
	return Folder(m.Root).write(leasesFile, all)
}

// abandoned tells whether there is no keeper. Who looks has the lock for a moment too.
func (f Folder) abandoned() bool {
	for deadline := time.Now().Add(200 * time.Millisecond); ; time.Sleep(2 * time.Millisecond) {
		if lock, err := f.Keep(); err == nil {
			lock.Release()
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// drifting tells whether a session without a keeper goes on. The caller holds the keeper's lock. The end of a program whose pane is still there is told by state.
func (f Folder) drifting(ctx context.Context, s Spec, state *State) bool {
	if s.Backend != Tmux || state.PID == 0 {
		return false
	}
	found, err := f.Pane(s).Find(ctx)
	switch {
	case errors.Is(err, pane.ErrNoPane), errors.Is(err, pane.ErrNoServer), err == nil && found.PID != state.PID:
		state.Reason = Lost
		return false
	case err != nil || !found.Dead:
		return true // or tmux does not tell, and nothing is done to it
	}
	state.Reason = Lost
	if found, err = f.Pane(s).End(ctx, state.PID); err == nil && found.KnowsEnd {
		state.end(found.Status)
	}
	return false
}

// end notes how a program ended by itself.
func (s *State) end(status unix.WaitStatus) {
	code := status.ExitStatus()
	s.Reason = Exited
	if status.Signaled() {
		code = 128 + int(status.Signal())
		s.Signal, s.Reason = unix.SignalName(status.Signal()), Signaled
	}
	s.ExitCode = &code
}

// relayed waits until what tmux still had of a session is in its log.
func (f Folder) relayed(patience time.Duration) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		l, err := flock.Try(f.path(RelayLock), flock.Exclusive)
		if err == nil {
			l.Release()
		}
		if !errors.Is(err, flock.ErrHeld) {
			return
		}
	}
}

// RelayLock is the file in a session's folder that is locked by what writes the log of a session in tmux.
const RelayLock = "relay.lock"
