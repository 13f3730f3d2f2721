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

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session/pane"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// Folder is that of a session.
type Folder string

// SocketName is that of the keeper's socket in it.
const SocketName = "socket"

// stateName is that of the file of what became of a session.
const stateName = "state.json"

// Stream is one of the logs of a session.
type Stream string

// The streams. Output is all that the program printed, as a person would have seen it come.
const (
	Output Stream = "output"
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Pane is where a session of the tmux backend runs. Those of one owner and workspace share a session of tmux.
func (f Folder) Pane(s Spec) pane.Pane {
	shared := "session-" + s.ID
	if s.TmuxWorkspace != "" {
		shared = fmt.Sprintf("workspace-%x", sha256.Sum256([]byte(s.Owner+"\x00"+s.TmuxWorkspace)))[:40]
	}
	return pane.Pane{Folder: filepath.Join(filepath.Dir(string(f)), ".tmux"), Session: shared, Window: s.ID}
}

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// Make makes the folder of a new session, with what was asked for and its empty logs. What fails leaves nothing.
func Make(root string, s Spec) (_ Folder, err error) {
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
		l, err := transcript.CreateShared(f.path(string(stream)), s.OutputBytes)
		if err != nil {
			return "", err
		}
		l.Mark().Store(s.CreatedAt.UnixNano())
		l.Close()
	}
	if err := f.write("spec.json", s); err != nil { // at last: from now on there is a session, whose logs can be read
		return "", err
	}
	return f, nil
}

// Log opens one of the logs. The caller must Close it.
func (f Folder) Log(s Stream) (*transcript.Shared, error) {
	return transcript.OpenShared(f.path(string(s)))
}

// Spec is what was asked for. NotFound where there is no such session.
func (f Folder) Spec() (s Spec, err error) {
	err = f.read("spec.json", &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fault.New(fault.NotFound, "find session", filepath.Base(string(f)), "unknown session_id")
	}
	return s, err
}

// State is what became of it, as far as its keeper said. ok is false where that has said nothing yet.
func (f Folder) State() (s State, ok bool, err error) {
	err = f.read(stateName, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	s.LogError = f.logError()
	return s, err == nil, err
}

// SetState writes what became of it. Where it was written once it can be on a full disk too.
func (f Folder) SetState(s State) error {
	s.LogError = "" // it is kept by itself
	return f.write(stateName, s)
}

// Keep takes the lock that a keeper has as long as it lives. flock.ErrHeld where there is one.
func (f Folder) Keep() (*flock.Lock, error) { return flock.Try(f.path("keeper.lock"), flock.Exclusive) }

// Kept tells whether there is a keeper.
func (f Folder) Kept() bool {
	held, _ := flock.Held(f.path("keeper.lock"))
	return held
}

// gonePrefix begins the name of what is being removed.
const gonePrefix = ".gone-"

// Remove removes the session, which is gone at once for all others: who looks at it meanwhile makes nothing in it anew. Idempotent.
func (f Folder) Remove() error {
	gone := filepath.Join(filepath.Dir(string(f)), gonePrefix+filepath.Base(string(f)))
	if err := os.Rename(string(f), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(string(f))
	}
	return os.RemoveAll(gone)
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

// write replaces a file as a whole: who reads it, or is killed, sees the old one or the new.
func (f Folder) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(string(f), name+".*")
	if err != nil {
		return f.writeReserved(name, b, err)
	}
	_, err = part.Write(b)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), f.path(name))
	}
	if err != nil {
		os.Remove(part.Name())
		err = f.writeReserved(name, b, err)
	}
	return err
}

// What is in the reserve has its space on the disk already: how a session ended is noted on a full disk too.
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

// writeReserved is write where the disk is full, of a file that is there: it takes the space of the reserve, and leaves that of the old file to the next one.
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
	f.reserve() // if nobody else was faster
	return nil
}
