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

// A tmux session is orphaned if its session process was killed. Its pane still runs, and the output
// reaches the log. But the session accepts no input, and its time limits have no effect.

// Recover starts a session process for an orphaned tmux session. It also recovers all orphaned
// sessions that share the tmux workspace: either all of them or none. It removes their claims, but
// keeps the record of the last transfer. If the session is not orphaned, Recover returns it
// unchanged. Precondition: the panes do not match the records.
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
	one, group, err := m.findInTmux(name, owner)
	if err != nil {
		return Info{}, err
	}
	var orphaned []Info
	for _, info := range group {
		if !info.Folder.abandoned() {
			continue
		}
		found, err := info.Folder.Pane(info.Spec).Find(ctx)
		switch {
		case err != nil:
			return Info{}, fault.Newf(fault.Precondition, "tmux does not match the record of %s: %w", info.ID, err)
		case found.PID != info.PID:
			return Info{}, fault.Newf(fault.Precondition, "another program runs in the pane of %s: process %d, not %d", info.ID, found.PID, info.PID)
		}
		orphaned = append(orphaned, info)
	}
	if len(orphaned) == 0 {
		return m.Get(one.ID)
	}
	if err := m.removeClaims(ctx, orphaned); err != nil {
		return Info{}, err
	}
	for i, info := range orphaned {
		if err := m.startProcess(ctx, info.Folder); err != nil {
			for _, begun := range orphaned[:i] {
				if pid, err := flock.Holder(begun.Folder.path(lockName)); err == nil {
					unix.Kill(pid, unix.SIGKILL) // the session becomes orphaned again
				}
			}
			return Info{}, err
		}
	}
	return m.Get(one.ID)
}

// findInTmux returns the running tmux session with a name and owner. The group contains all
// sessions that share its tmux workspace.
func (m *Manager) findInTmux(name, owner string) (one Info, group []Info, err error) {
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
		return Info{}, nil, fault.Newf(fault.NotFound, "no running session has this name and owner").WithHint("pty_list")
	case found > 1:
		return Info{}, nil, fault.Newf(fault.Precondition, "%d running sessions have this name and owner", found).WithHint("pty_list, pty_close")
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

// removeClaims removes the claims of sessions.
func (m *Manager) removeClaims(ctx context.Context, sessions []Info) error {
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".leases"), flock.Exclusive, nil)
	if err != nil {
		return err
	}
	defer lock.Release()
	all, err := m.Claims()
	if err != nil {
		return err
	}
	for _, info := range sessions {
		if l, ok := all[info.ID]; ok {
			all[info.ID] = Claim{Last: l.Last}
		}
	}
	return Folder(m.Root).write(claimsFile, all)
}

// abandoned reports whether the session has no session process. It retries, because a probe also
// holds the lock briefly.
func (f Folder) abandoned() bool {
	for deadline := time.Now().Add(200 * time.Millisecond); ; time.Sleep(2 * time.Millisecond) {
		if lock, err := f.LockProcess(); err == nil {
			lock.Release()
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// paneRuns reports whether the pane of a session without a session process still runs. The caller
// must hold the session's lock. If the program has ended, paneRuns records its exit in state.
func (f Folder) paneRuns(ctx context.Context, s Spec, state *State) bool {
	if s.Backend != Tmux || state.PID == 0 {
		return false
	}
	found, err := f.Pane(s).Find(ctx)
	switch {
	case errors.Is(err, pane.ErrNoPane), errors.Is(err, pane.ErrNoServer), err == nil && found.PID != state.PID:
		state.Reason = Lost
		return false
	case err != nil || !found.Dead:
		return true // if tmux does not respond, do not touch the pane
	}
	state.Reason = Lost
	if found, err = f.Pane(s).End(ctx, state.PID); err == nil && found.KnowsEnd {
		state.end(found.Status)
	}
	return false
}

// end records the exit of a program that ended on its own.
func (s *State) end(status unix.WaitStatus) {
	code := status.ExitStatus()
	s.Reason = Exited
	if status.Signaled() {
		code = 128 + int(status.Signal())
		s.Signal, s.Reason = unix.SignalName(status.Signal()), Signaled
	}
	s.ExitCode = &code
}

// awaitLogWriter waits until the log writer has written the remaining output, but at most for
// patience.
func (f Folder) awaitLogWriter(patience time.Duration) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		l, err := flock.Try(f.path(LogWriterLock), flock.Exclusive)
		if err == nil {
			l.Release()
		}
		if !errors.Is(err, flock.ErrHeld) {
			return
		}
	}
}

// LogWriterLock is a file in a session's folder. The log writer of a tmux session locks this file.
const LogWriterLock = "relay.lock"
