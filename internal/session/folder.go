package session

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session/pane"
)

// Folder is the path of a session's folder.
type Folder string

// SocketName is the name of the session process's socket.
const SocketName = "socket"

// These are files of the session process. Earlier builds use these names, and their sessions can
// still be running.
const (
	lockName = "keeper.lock"
	logName  = "keeper.log"
)

// stateName is the name of the file that contains the State.
const stateName = "state.json"

// Stream is one of the logs of a session.
type Stream string

// The streams. Output contains everything that the program printed, in the order of a terminal.
const (
	Output Stream = "output"
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Pane returns the tmux pane of a session. Sessions with the same owner and the same tmux workspace
// share a tmux session.
func (f Folder) Pane(s Spec) pane.Pane {
	shared := "session-" + s.ID
	if s.TmuxWorkspace != "" {
		shared = fmt.Sprintf("workspace-%x", sha256.Sum256([]byte(s.Owner+"\x00"+s.TmuxWorkspace)))[:40]
	}
	return pane.Pane{Folder: filepath.Join(filepath.Dir(string(f)), ".tmux"), Session: shared, Window: s.ID}
}

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// Create creates the folder of a new session, with its spec and empty logs. If Create fails, it
// removes the folder.
func Create(root string, s Spec) (_ Folder, err error) {
	f := Folder(filepath.Join(root, s.ID))
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(string(f), 0o700); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Remove()
		}
	}()
	if err := f.reserve(); err != nil {
		return "", err
	}
	streams := []Stream{Output}
	if s.Separate {
		streams = append(streams, Stdout, Stderr)
	}
	for _, stream := range streams {
		l, err := program.CreateSharedLog(f.path(string(stream)), s.OutputBytes)
		if err != nil {
			return "", err
		}
		l.Mark().Store(s.CreatedAt.UnixNano())
		l.Close()
	}
	if err := f.write("spec.json", s); err != nil { // last: it makes the session visible, so the logs must be readable
		return "", err
	}
	return f, nil
}

// Log opens a log. The caller must close it.
func (f Folder) Log(s Stream) (*program.SharedLog, error) {
	return program.OpenSharedLog(f.path(string(s)))
}

// Spec reads the spec. NotFound: there is no such session.
func (f Folder) Spec() (s Spec, err error) {
	err = f.read("spec.json", &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fault.New(fault.NotFound, "find session", filepath.Base(string(f)), "unknown session_id")
	}
	return s, err
}

// State reads the state. ok is false if the session process has not written it yet.
func (f Folder) State() (s State, ok bool, err error) {
	err = f.read(stateName, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	s.LogError = f.logError()
	return s, err == nil, err
}

// SetState writes the state. If a state already exists, SetState can replace it even on a full
// disk.
func (f Folder) SetState(s State) error {
	s.LogError = "" // the log error is stored in a separate file
	return f.write(stateName, s)
}

// LockProcess takes the lock that a session process holds until it exits. flock.ErrHeld: the
// session has a session process.
func (f Folder) LockProcess() (*flock.Lock, error) {
	return flock.Try(f.path(lockName), flock.Exclusive)
}

// HasProcess reports whether the session has a session process.
func (f Folder) HasProcess() bool {
	held, _ := flock.Held(f.path(lockName))
	return held
}

// removedPrefix is the name prefix of folders that are being removed.
const removedPrefix = ".gone-"

// maxRemovals is how often removeAll tries. A process creates at most a few files in a folder that
// was renamed, because it then finds the session removed.
const maxRemovals = 100

// Remove removes the session. It renames the folder first, so that other processes do not find the
// folder and create files in it. Remove is idempotent.
func (f Folder) Remove() error {
	gone := filepath.Join(filepath.Dir(string(f)), removedPrefix+filepath.Base(string(f)))
	if err := os.Rename(string(f), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		gone = string(f)
	}
	return removeAll(gone)
}

// removeAll removes a folder. Processes that found the folder before it was renamed can still
// create a file in it, between the removal of its files and its own. Then removeAll tries again.
func removeAll(folder string) (err error) {
	for range maxRemovals {
		if err = os.RemoveAll(folder); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

func (f Folder) read(name string, v any) error {
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.New(fault.Corrupt, "read session", filepath.Base(string(f)), "%s: %w", name, err)
	}
	return nil
}

// write replaces a file. Readers see either the old or the new content, even if the writer is
// killed.
func (f Folder) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := (durable.Replacement{Temp: name + ".*", Unflushed: true}).Write(f.path(name), b); err != nil {
		return f.writeReserved(name, b, err)
	}
	return nil
}

// The reserve is a file with allocated blocks. With it, the end of a session can be recorded on a
// full disk.
const (
	reserveName = "reserve"
	reserveSize = 4 << 10
)

func (f Folder) reserve() error {
	file, err := os.OpenFile(f.path(reserveName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, reserveSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, reserveSize))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(f.path(reserveName))
	}
	return err
}

// writeReserved replaces an existing file on a full disk. It writes to the blocks of the reserve.
// Then it allocates a new reserve, for which the old file has freed the space.
func (f Folder) writeReserved(name string, b []byte, full error) error {
	if !errors.Is(full, unix.ENOSPC) && !errors.Is(full, unix.EDQUOT) || len(b) > reserveSize {
		return full
	}
	if _, err := os.Stat(f.path(name)); err != nil {
		return full
	}
	file, err := os.OpenFile(f.path(reserveName), os.O_WRONLY, 0)
	if err != nil {
		return full
	}
	_, err = file.Write(b)
	if err = errors.Join(err, file.Truncate(int64(len(b))), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.path(reserveName), f.path(name)); err != nil {
		return err
	}
	f.reserve() // can fail, because another process can use the freed blocks first
	return nil
}
