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
	"slices"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Command is the argument that makes a program a session process. The next argument is the folder
// of the session. The process reports its start on standard output, as a line of JSON that contains
// a Started.
const Command = "keep-session"

// EndInWorkspace is the last element of a path below a session's folder. If Command gets such a
// path instead of the folder, the process ends the program that a killed session process left in a
// workspace.
const EndInWorkspace = "workspace"

// Started is the report of a session process about its start.
type Started struct {
	Failed *fault.Report `json:"failed,omitempty"`
}

// Manager manages all sessions in a folder. Several managers in several processes can use the same
// folder. Only the exported fields must be set.
type Manager struct {
	Root    string                 // contains a folder for each session
	Program func() (string, error) // returns a program that accepts Command
	Grace   time.Duration          // how long ended sessions are kept with their output

	conns connections
	cache cache
}

// CloseConnections closes the connections to session processes. Sessions continue.
func (m *Manager) CloseConnections() { m.conns.close() }

// Info describes a session at one point in time.
type Info struct {
	Spec
	State
	Folder   Folder
	Orphaned bool // the session process was killed, but the tmux pane still runs: see Recover

	conns *connections
}

// Spawn checks the spec and starts a session. Exhausted: `most` sessions already run. Exists: a
// session with the same owner and name runs.
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
			return Info{}, fault.Newf(fault.Exists, "a session with this name is running: %s", other.ID).WithHint("pty_resume returns it, pty_close ends it")
		}
	}
	if len(running) >= most {
		return Info{}, fault.Newf(fault.Exhausted, "too many sessions (max %d)", most).WithHint("pty_close one, or set PTY_MCP_MAX_SESSIONS")
	}
	f, err := Create(m.Root, s)
	if err != nil {
		return Info{}, err
	}
	if err := m.startProcess(ctx, f); err != nil {
		m.finish(f, Lost)
		f.Remove()
		return Info{}, err
	}
	return m.Get(s.ID)
}

// running returns the running sessions.
func (m *Manager) running() (all []Info, err error) {
	_, err = m.each(func(info Info) {
		if info.Running() {
			all = append(all, info)
		}
	})
	return all, err
}

// startProcess starts a session process. It returns when the program of the session runs.
func (m *Manager) startProcess(ctx context.Context, f Folder) error {
	cmd, err := m.command(string(f))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(f.path(logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cmd.Start(); err != nil {
		return fault.Newf(fault.Unavailable, "can't start its session process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if !stop() {
		cmd.Wait()
		m.cleanUp(f)
		return context.Cause(ctx)
	}
	go cmd.Wait() // avoid a zombie
	var begun Started
	if err != nil || json.Unmarshal(line, &begun) != nil {
		return fault.Newf(fault.Unavailable, "its session process ended before the program ran").WithHint("see the file %s in %s", logName, f)
	}
	if begun.Failed != nil {
		return begun.Failed.Err()
	}
	return nil
}

// command returns a command that runs Program as a session process with the given argument.
func (m *Manager) command(argument string) (*exec.Cmd, error) {
	program, err := m.Program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, Command, argument)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GOGC=40", "GOMEMLIMIT=16MiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// idForm matches session IDs. An ID is also the name of the session's folder.
var idForm = lazyregexp.New(`^[0-9]{1,15}-[0-9]{1,10}-[0-9a-f]{8}$`)

// Get returns a session. NotFound: no session has this ID.
func (m *Manager) Get(id string) (Info, error) {
	if !idForm().MatchString(id) {
		return Info{}, fault.New(fault.NotFound, "find session", fault.Printable(id[:min(len(id), 80)]), "unknown session_id").WithHint("pty_list")
	}
	f := Folder(filepath.Join(m.Root, id))
	if s, state, ok := m.cache.get(f); ok && !state.Running() {
		return Info{s, state, f, false, &m.conns}, nil
	}
	kept := f.HasProcess() // check it before the state is read: a session process writes the state before it exits
	s, state, began, err := m.cache.read(f)
	if err != nil {
		m.conns.remove(id)
		return Info{}, err
	}
	info := Info{s, state, f, false, &m.conns}
	if state.Running() && !kept && (began || time.Since(s.CreatedAt) >= startTime) {
		err = m.refreshState(&info)
	}
	if !info.Running() {
		m.conns.remove(id)
	}
	return info, err
}

// List returns all sessions. The most recently used session is first.
func (m *Manager) List() ([]Info, error) {
	all, _, err := m.list()
	return all, err
}

// list is like List, but also returns the folders that can't be read. Such a session is still being
// created, or a crash of the host has damaged its files.
func (m *Manager) list() (all []Info, unread []Folder, err error) {
	used := map[string]int64{}
	unread, err = m.each(func(info Info) {
		all = append(all, info)
		used[info.ID] = info.LastActive().UnixNano()
	})
	if err != nil {
		return nil, nil, err
	}
	m.conns.retain(used)
	m.cache.retain(used)
	slices.SortFunc(all, func(a, b Info) int { return int(min(1, max(-1, used[b.ID]-used[a.ID]))) })
	return all, unread, nil
}

// each calls f for each session. It returns the folders that can't be read.
func (m *Manager) each(f func(Info)) (unread []Folder, err error) {
	entries, err := os.ReadDir(m.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !idForm().MatchString(e.Name()) {
			continue
		}
		info, err := m.Get(e.Name())
		switch kind := fault.KindOf(err); {
		case err == nil:
			f(info)
		case kind == fault.NotFound || kind == fault.Corrupt: // just closed, being created, or incomplete
			unread = append(unread, Folder(filepath.Join(m.Root, e.Name())))
		default:
			return nil, err
		}
	}
	return unread, nil
}

// Find returns the session with a name and owner. If there are several, it prefers a running
// session, then the most recently used one. NotFound: there is no such session.
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
		return Info{}, fault.New(fault.NotFound, "find session", name, "no session has this name and owner").WithHint("pty_list")
	}
	return all[found], nil
}

// LastActive returns the time of the last output or the last use.
func (i Info) LastActive() time.Time {
	l, err := i.Folder.Log(Output)
	if err != nil {
		return i.CreatedAt
	}
	defer l.Close()
	return time.Unix(0, l.Mark().Load())
}

// Close ends a session and removes its folder.
func (m *Manager) Close(ctx context.Context, id string) error { return m.CloseFor(ctx, id, "") }

// CloseFor is like Close, on behalf of a client. The session's log contains the name of the client.
func (m *Manager) CloseFor(ctx context.Context, id, client string) error {
	info, err := m.Get(id)
	if err != nil {
		return err
	}
	if info.Running() {
		if info.Orphaned {
			m.AppendEvent(info, Event{Event: "close", Client: client})
		} else if err := info.End(ctx, client); err != nil {
			return fault.Wrap(err, "close session", id)
		}
		// A session process that was killed has not ended its programs.
		if state, _, err := info.Folder.State(); err == nil && state.Running() {
			if err := m.finish(info.Folder, Killed); err != nil {
				return fault.Wrap(err, "close session", id)
			}
		}
	}
	return fault.Wrap(info.Folder.Remove(), "close session", id)
}
