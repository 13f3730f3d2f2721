package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Collect removes sessions that ended longer than Grace ago, and unreadable folders. It cleans up
// after session processes that were killed. It also ends orphaned sessions that have exceeded their
// runtime limit or idle timeout.
func (m *Manager) Collect(now time.Time) error {
	all, unread, err := m.list()
	removed, _ := filepath.Glob(filepath.Join(m.Root, removedPrefix+"*")) // folders that a killed process has left, or that are being removed
	for _, gone := range removed {
		err = errors.Join(err, os.RemoveAll(gone))
	}
	for _, f := range unread {
		if stat, e := os.Stat(string(f)); e == nil && now.Sub(stat.ModTime()) > m.Grace && time.Since(stat.ModTime()) > startTime && !f.HasProcess() {
			err = errors.Join(err, f.Remove())
		}
	}
	for _, info := range all {
		switch {
		case !info.Running() && now.Sub(info.EndedAt) > m.Grace:
			err = errors.Join(err, info.Folder.Remove())
		case info.Orphaned && (info.RuntimeLimit > 0 && now.Sub(info.CreatedAt) > info.RuntimeLimit || info.IdleTimeout > 0 && now.Sub(info.LastActive()) > info.IdleTimeout):
			if e := m.finish(info.Folder, TimedOut); !errors.Is(e, flock.ErrHeld) { // held: it was just recovered
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// refreshState cleans up after a session process that was killed, then reads the state again.
func (m *Manager) refreshState(info *Info) error {
	orphaned, err := m.cleanUp(info.Folder)
	if err != nil {
		return err
	}
	if info.State, _, err = info.Folder.State(); err == nil {
		info.Orphaned = orphaned && info.Running()
	}
	return err
}

// startTime is the maximum time from the creation of a session to the start of its session process.
const startTime = 30 * time.Second

// cleanUp ends everything that a killed session process left running. A program in tmux can
// continue: its session is then orphaned.
func (m *Manager) cleanUp(f Folder) (orphaned bool, err error) {
	lock, err := f.LockProcess()
	if errors.Is(err, flock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
		return false, nil // another process cleans up, or the session was removed
	}
	if err != nil {
		return false, err
	}
	defer lock.Release()
	return m.endUnowned(f, "")
}

// finishPatience is how long finish waits for the lock of a session. Listing sessions locks them
// for a moment too.
const finishPatience = 2 * time.Second

// finish ends a session that has no session process. Otherwise the error is a flock.ErrHeld.
func (m *Manager) finish(f Folder, why ExitReason) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), finishPatience, flock.ErrHeld)
	defer cancel()
	lock, err := flock.Take(ctx, f.path(lockName), flock.Exclusive, nil)
	switch {
	case errors.Is(err, flock.ErrHeld):
		return fault.Newf(fault.Unavailable, "its folder is %w", err).WithHint("try again")
	case errors.Is(err, fs.ErrNotExist):
		return nil // the session was removed
	case err != nil:
		return err
	}
	defer lock.Release()
	_, err = m.endUnowned(f, why)
	return err
}

// endUnowned ends a locked session. If why is empty, an orphaned session continues.
func (m *Manager) endUnowned(f Folder, why ExitReason) (orphaned bool, err error) {
	state, _, err := f.State()
	if err != nil || !state.Running() {
		return false, err
	}
	s, err := f.Spec()
	if err != nil {
		return false, err
	}
	os.Remove(f.path(SocketName))
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpPatience)
	defer cancel()
	first := 0 // 0 if another process can have the same PID by now
	if f.paneRuns(ctx, s, &state) {
		if why == "" {
			return true, nil
		}
		first = state.PID
		state.Reason, state.Ending = why, true
		if err := f.SetState(state); err != nil {
			return false, err
		}
		belong := ProcessFinder(s.ID, first)
		AskToEnd(0, EndGrace, func() []int {
			return slices.DeleteFunc(belong(), func(pid int) bool { return pid == first })
		})
	}
	killAll(s.ID, first)
	if s.Backend == Workspace {
		if err := m.endInWorkspace(ctx, f); err != nil {
			return false, err
		}
	}
	if s.Backend == Tmux {
		if err := f.Pane(s).Close(ctx); err != nil {
			return false, err
		}
		f.awaitLogWriter(cleanUpPatience)
	}
	for _, s := range []Stream{Output, Stdout, Stderr} {
		if l, err := f.Log(s); err == nil {
			l.End()
			l.Close()
		}
	}
	if err := f.RemoveSecrets(); err != nil {
		return false, err
	}
	state.EndedAt, state.Ending = time.Now().UTC(), false
	if state.Reason == "" {
		state.Reason = Lost
	}
	f.AppendEvent(s, Event{Event: "exit", Reason: string(state.Reason), Code: state.ExitCode})
	return false, f.SetState(state)
}

// endInWorkspace ends the program of a session whose session process was killed. If that fails, the
// file keeper.log contains the reason.
func (m *Manager) endInWorkspace(ctx context.Context, f Folder) error {
	cmd, err := m.command(f.path(EndInWorkspace))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(f.path(logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	cmd.Wait()
	return nil
}

const cleanUpPatience = 10 * time.Second
