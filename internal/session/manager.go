package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
)

// Command is what pyro is called with, and the folder of a session, where it is to be its keeper. It tells on its standard output how that began: a line of JSON.
const Command = "keep-session"

// Begun is what a keeper tells.
type Begun struct {
	Failed *fault.Report `json:"failed,omitempty"`
}

// Manager keeps all sessions of a folder. Many in many processes may use it at once. The zero value but for its fields is ready.
type Manager struct {
	Root    string                 // a folder for each
	Program func() (string, error) // that can be a keeper
	Grace   time.Duration          // how long what has ended is kept, with what it printed

	conns  connections
	memory memory
}

// Rest gives back what the manager holds on to, when it is used no more. Sessions go on.
func (m *Manager) Rest() { m.conns.close() }

// Info is a session as it is now.
type Info struct {
	Spec
	State
	Folder Folder
	Adrift bool // its keeper was killed, and its tmux pane goes on: see Recover

	conns *connections
}

// Spawn starts a session, whose spec must have been checked. At most `most` run at once; one of the same owner and name must not run.
func (m *Manager) Spawn(ctx context.Context, s Spec, most int) (Info, error) {
	info, err := m.spawn(ctx, s, most)
	return info, fault.Wrap(err, "spawn session", s.Name)
}

func (m *Manager) spawn(ctx context.Context, s Spec, most int) (Info, error) {
	if err := s.Check(); err != nil {
		return Info{}, err
	}
	if err := os.MkdirAll(m.Root, 0o700); err != nil {
		return Info{}, err
	}
	lock, err := flock.Take(ctx, filepath.Join(m.Root, ".lock"), flock.Exclusive, nil)
	if err != nil {
		return Info{}, err
	}
	defer lock.Release()
	running, err := m.running()
	if err != nil {
		return Info{}, err
	}
	for _, other := range running {
		if s.Name != "" && other.Name == s.Name && other.Owner == s.Owner {
			return Info{}, fault.New(fault.Exists, "", "", "a session of this name runs: %s", other.ID).WithHint("pty_resume gives it, pty_close ends it")
		}
	}
	if len(running) >= most {
		return Info{}, fault.New(fault.Exhausted, "", "", "too many sessions (max %d)", most).WithHint("pty_close one, or set PTY_MCP_MAX_SESSIONS")
	}
	f, err := Make(m.Root, s)
	if err != nil {
		return Info{}, err
	}
	if err := m.keep(ctx, f); err != nil {
		m.finish(f, Lost)
		f.Remove()
		return Info{}, err
	}
	return m.Get(s.ID)
}

// running gives the sessions that run.
func (m *Manager) running() (all []Info, err error) {
	_, err = m.each(func(info Info) {
		if info.Running() {
			all = append(all, info)
		}
	})
	return all, err
}

// keep starts a keeper, and returns when its program runs.
func (m *Manager) keep(ctx context.Context, f Folder) error {
	program, err := m.Program()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(f.path("keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, Command, string(f))
	cmd.Dir, cmd.Stderr = "/", log
	cmd.Env = append(os.Environ(), "GOGC=40", "GOMEMLIMIT=16MiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Unavailable, "", "", "its keeper can't be started: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if !stop() {
		cmd.Wait()
		m.tidy(f)
		return context.Cause(ctx)
	}
	go cmd.Wait() // so that it is no zombie where the caller lives on
	var begun Begun
	if err != nil || json.Unmarshal(line, &begun) != nil {
		return fault.New(fault.Unavailable, "", "", "its keeper ended before the program ran").WithHint("see the file keeper.log in %s", f)
	}
	if begun.Failed != nil {
		return begun.Failed.Err()
	}
	return nil
}

// idForm is that of ids, which are names of folders.
var idForm = regexp.MustCompile(`^[0-9]{1,15}-[0-9]{1,10}-[0-9a-f]{8}$`)

// Get gives a session. NotFound where there is none.
func (m *Manager) Get(id string) (Info, error) {
	if !idForm.MatchString(id) {
		return Info{}, fault.New(fault.NotFound, "find session", fault.Printable(id[:min(len(id), 80)]), "unknown session_id").WithHint("pty_list")
	}
	f := Folder(filepath.Join(m.Root, id))
	if s, state, ok := m.memory.recall(f); ok && !state.Running() {
		return Info{s, state, f, false, &m.conns}, nil
	}
	kept := f.Kept() // before the state, which a keeper writes before it goes
	s, state, began, err := m.memory.read(f)
	if err != nil {
		m.conns.forget(id)
		return Info{}, err
	}
	info := Info{s, state, f, false, &m.conns}
	if state.Running() && !kept && (began || time.Since(s.CreatedAt) >= beginning) {
		err = m.tidied(&info)
	}
	if !info.Running() {
		m.conns.forget(id)
	}
	return info, err
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

// List gives all sessions, the one that was used last first.
func (m *Manager) List() ([]Info, error) {
	all, _, err := m.list()
	return all, err
}

// list is List, and gives the folders beside it of which what is kept is not what was written, as after the host was switched off, or not yet all. They keep nobody from the others.
func (m *Manager) list() (all []Info, unread []Folder, err error) {
	used := map[string]int64{}
	unread, err = m.each(func(info Info) {
		all = append(all, info)
		used[info.ID] = info.LastActive().UnixNano()
	})
	if err != nil {
		return nil, nil, err
	}
	m.conns.only(used)
	m.memory.only(used)
	slices.SortFunc(all, func(a, b Info) int { return int(min(1, max(-1, used[b.ID]-used[a.ID]))) })
	return all, unread, nil
}

// each has f look at all sessions, and gives the folders that can't be read.
func (m *Manager) each(f func(Info)) (unread []Folder, err error) {
	entries, err := os.ReadDir(m.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !idForm.MatchString(e.Name()) {
			continue
		}
		info, err := m.Get(e.Name())
		switch kind := fault.KindOf(err); {
		case err == nil:
			f(info)
		case kind == fault.NotFound || kind == fault.Corrupt: // it was closed meanwhile, is being made, or whoever made it was killed
			unread = append(unread, Folder(filepath.Join(m.Root, e.Name())))
		default:
			return nil, err
		}
	}
	return unread, nil
}

// Find gives the session of a name and an owner, of several the one that runs, else that which was used last. NotFound where there is none.
func (m *Manager) Find(name, owner string) (Info, error) {
	all, err := m.List()
	if err != nil {
		return Info{}, err
	}
	found := -1
	for i, info := range all {
		if info.Name == name && info.Owner == owner && (found < 0 || info.Running() && !all[found].Running()) {
			found = i
		}
	}
	if found < 0 || name == "" {
		return Info{}, fault.New(fault.NotFound, "find session", name, "there is none of this name and owner").WithHint("pty_list")
	}
	return all[found], nil
}

// LastActive is when something was last done with a session.
func (i Info) LastActive() time.Time {
	l, err := i.Folder.Log(Output)
	if err != nil {
		return i.CreatedAt
	}
	defer l.Close()
	return time.Unix(0, l.Mark().Load())
}

// Close ends a session and removes all that is kept of it.
func (m *Manager) Close(ctx context.Context, id string) error { return m.CloseFor(ctx, id, "") }

// CloseFor is Close on behalf of a client, for the session's log.
func (m *Manager) CloseFor(ctx context.Context, id, client string) error {
	info, err := m.Get(id)
	if err != nil {
		return err
	}
	if info.Running() {
		if info.Adrift {
			m.Note(info, Event{Event: "close", Client: client})
			err = m.finish(info.Folder, Killed)
		} else {
			err = info.End(ctx, client)
		}
		if err != nil {
			return fault.Wrap(err, "close session", id)
		}
	}
	return fault.Wrap(info.Folder.Remove(), "close session", id)
}

// Collect removes what ended longer than Grace ago, or is what nobody can read, tidies after keepers that were killed, and ends what goes on without one when its time is over.
func (m *Manager) Collect(now time.Time) error {
	all, unread, err := m.list()
	removed, _ := filepath.Glob(filepath.Join(m.Root, gonePrefix+"*")) // by somebody who was killed meanwhile, or is at it
	for _, gone := range removed {
		err = errors.Join(err, os.RemoveAll(gone))
	}
	for _, f := range unread {
		if stat, e := os.Stat(string(f)); e == nil && now.Sub(stat.ModTime()) > max(m.Grace, beginning) && !f.Kept() {
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
