package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pyro-mcp/pyro/internal/flock"
)

// Collect removes what ended longer than Grace ago, or is what nobody can read, tidies after keepers that were killed, and ends what goes on without one when its time is over.
func (m *Manager) Collect(now time.Time) error {
	all, unread, err := m.list()
	removed, _ := filepath.Glob(filepath.Join(m.Root, gonePrefix+"*")) // by somebody who was killed meanwhile, or is at it
	for _, gone := range removed {
		err = errors.Join(err, os.RemoveAll(gone))
	}
	for _, f := range unread {
		if stat, e := os.Stat(string(f)); e == nil && now.Sub(stat.ModTime()) > m.Grace && time.Since(stat.ModTime()) > beginning && !f.Kept() {
			err = errors.Join(err, f.Remove())
		}
	}
	for _, info := range all {
		switch {
		case !info.Running() && now.Sub(info.EndedAt) > m.Grace:
			err = errors.Join(err, info.Folder.Remove())
		case info.Adrift && (info.RuntimeLimit > 0 && now.Sub(info.CreatedAt) > info.RuntimeLimit || info.IdleTimeout > 0 && now.Sub(info.LastActive()) > info.IdleTimeout):
			err = errors.Join(err, m.finish(info.Folder, TimedOut))
		}
	}
	return err
}

// tidied tells what became of a session whose keeper was killed, and whether it is adrift.
func (m *Manager) tidied(info *Info) error {
	adrift, err := m.tidy(info.Folder)
	if err != nil {
		return err
	}
	if info.State, _, err = info.Folder.State(); err == nil {
		info.Adrift = adrift && info.Running()
	}
	return err
}

// beginning is how long a session may take to have a keeper.
const beginning = 30 * time.Second

// tidy ends what is left of a session whose keeper was killed, unless it goes on without.
func (m *Manager) tidy(f Folder) (adrift bool, err error) { return m.unkept(f, "") }

// finish ends a session that has no keeper, for a reason.
func (m *Manager) finish(f Folder, why ExitReason) error {
	_, err := m.unkept(f, why)
	return err
}

func (m *Manager) unkept(f Folder, why ExitReason) (adrift bool, err error) {
	lock, err := f.Keep()
	if errors.Is(err, flock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
		return false, nil // somebody else does, or it is gone
	}
	if err != nil {
		return false, err
	}
	defer lock.Release()
	state, _, err := f.State()
	if err != nil || !state.Running() {
		return false, err
	}
	s, err := f.Spec()
	if err != nil {
		return false, err
	}
	os.Remove(f.path(SocketName))
	ctx, cancel := context.WithTimeout(context.Background(), tidyPatience)
	defer cancel()
	first := 0 // known to be the session's own only while it goes on
	if f.drifting(ctx, s, &state) {
		if why == "" {
			return true, nil
		}
		first = state.PID
		state.Reason = why
	}
	killAll(s.ID, first)
	if s.Backend == Tmux {
		if err := f.Pane(s).Close(ctx); err != nil {
			return false, err
		}
		f.relayed(tidyPatience)
	}
	for _, s := range []Stream{Output, Stdout, Stderr} {
		if l, err := f.Log(s); err == nil {
			l.End()
			l.Close()
		}
	}
	if err := f.Forget(); err != nil {
		return false, err
	}
	state.EndedAt = time.Now().UTC()
	if state.Reason == "" {
		state.Reason = Lost
	}
	f.Note(s, Event{Event: "exit", Reason: string(state.Reason), Code: state.ExitCode})
	return false, f.SetState(state)
}

const tidyPatience = 10 * time.Second
