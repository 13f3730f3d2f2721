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
			return Info{}, fault.Newf(fault.Exists, "a session of this name runs: %s", other.ID).WithHint("pty_resume gives it, pty_close ends it")
		}
	}
	if len(running) >= most {
		return Info{}, fault.Newf(fault.Exhausted, "too many sessions (max %d)", most).WithHint("pty_close one, or set PTY_MCP_MAX_SESSIONS")
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
		return fault.Newf(fault.Unavailable, "its keeper can't be started: %w", err)
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
		return fault.Newf(fault.Unavailable, "its keeper ended before the program ran").WithHint("see the file keeper.log in %s", f)
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
