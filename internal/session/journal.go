package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/runes"
)

// Event is a line of events.jsonl. For input it contains the length, not the text.
type Event struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // spawn, write, attach, detach, handoff, takeover, recover, secret, resize, signal, close or exit
	Session string    `json:"session_id"`
	Owner   string    `json:"owner,omitempty"`
	Client  string    `json:"client_id,omitempty"`
	From    string    `json:"from_client_id,omitempty"`   // only for takeover
	Target  string    `json:"target_client_id,omitempty"` // only for handoff
	Reason  string    `json:"reason,omitempty"`
	Command string    `json:"command,omitempty"`
	Bytes   int       `json:"bytes,omitempty"`
	Cols    int       `json:"cols,omitempty"`
	Rows    int       `json:"rows,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Code    *int      `json:"exit_code,omitempty"`
}

// These are the files in the log folder of a session, which is Spec.LogFolder/ID.
const (
	TranscriptName = "transcript.log" // the output, unchanged
	EventsName     = "events.jsonl"
	CastName       = "session.cast" // the output with timestamps, in asciinema v2 format
)

// AppendEvent adds an event to the log of a session, if the session has one. If it can't write the
// log, the session continues, and State.LogError contains the reason.
func (f Folder) AppendEvent(s Spec, e Event) {
	if s.LogFolder == "" {
		return
	}
	e.Time, e.Session, e.Owner = time.Now().UTC(), s.ID, s.Owner
	b, err := json.Marshal(e)
	if err == nil {
		err = f.append(s, EventsName, append(b, '\n'))
	}
	f.reportLogError(err)
}

// AppendEvent calls [Folder.AppendEvent] for a session.
func (m *Manager) AppendEvent(i Info, e Event) { i.Folder.AppendEvent(i.Spec, e) }

// append adds to a log file with a single write, so that lines from several processes do not mix.
func (f Folder) append(s Spec, name string, b []byte) error {
	file, err := openLog(s, name)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	return errors.Join(err, file.Close())
}

func openLog(s Spec, name string) (*os.File, error) {
	path := filepath.Join(s.LogFolder, s.ID, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() { // a write to a FIFO could block
		file.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return file, nil
}

const logErrorName = "log.error"

// reportLogError records the first error from writing the log.
func (f Folder) reportLogError(err error) {
	if err == nil {
		return
	}
	file, made := os.OpenFile(f.path(logErrorName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if made != nil {
		return
	}
	file.WriteString(err.Error()) // ignore errors: if the disk is full, logError needs only the empty file
	file.Close()
	if log, err2 := os.OpenFile(f.path(logName), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err2 == nil {
		fmt.Fprintf(log, "can't write the log of the session, which continues without it: %v\n", err)
		log.Close()
	}
}

func (f Folder) logError() string {
	b, err := os.ReadFile(f.path(logErrorName))
	if err == nil && len(b) == 0 {
		return "the disk is full"
	}
	return string(b)
}

// Recorder writes the output of a session to its log: unchanged, and as an asciinema recording. A
// nil *Recorder does nothing. A Recorder is not safe for concurrent use. Several processes can have
// a Recorder for a session if only one of them writes.
type Recorder struct {
	folder     Folder
	began      time.Time
	transcript *os.File // nil: an error occurred, and nothing more is written
	cast       *os.File
	part       []byte // an incomplete UTF-8 character
}

// Record opens the log of a session. It returns nil if the session has no log or its folder can't
// be created.
func (f Folder) Record(s Spec) *Recorder {
	if s.LogFolder == "" {
		return nil
	}
	r := &Recorder{folder: f, began: s.CreatedAt}
	if err := os.MkdirAll(filepath.Join(s.LogFolder, s.ID), 0o700); err != nil {
		f.reportLogError(err)
		return nil
	}
	var err1, err2 error
	r.transcript, err1 = openLog(s, TranscriptName)
	if r.cast, err2 = openLog(s, CastName); err2 == nil {
		if info, err := r.cast.Stat(); err == nil && info.Size() == 0 {
			r.line(map[string]any{
				"version": 2, "width": s.Cols, "height": s.Rows, "timestamp": s.CreatedAt.Unix(), "command": s.Command, "env": map[string]string{"TERM": "xterm-256color", "SHELL": "bash"},
			})
		}
	}
	f.reportLogError(errors.Join(err1, err2))
	return r
}

// Write records output.
func (r *Recorder) Write(b []byte) {
	if r == nil {
		return
	}
	if r.transcript != nil {
		_, err := r.transcript.Write(b)
		if err = errors.Join(err, checkLinked(r.transcript)); err != nil {
			r.folder.reportLogError(errors.Join(err, r.transcript.Close()))
			r.transcript = nil
		}
	}
	text := append(r.part, b...)
	whole := len(text) - runes.Partial(text)
	r.event("o", string(text[:whole]))
	r.part = append([]byte(nil), text[whole:]...)
}

// Resize records a new terminal size.
func (r *Recorder) Resize(cols, rows int) { r.event("r", fmt.Sprintf("%dx%d", cols, rows)) }

func (r *Recorder) event(kind, data string) {
	if r != nil && data != "" {
		r.line([]any{max(0, time.Since(r.began)).Seconds(), kind, data})
	}
}

func (r *Recorder) line(v any) {
	if r.cast == nil {
		return
	}
	b, err := json.Marshal(v)
	if err == nil {
		_, err = r.cast.Write(append(b, '\n'))
	}
	if err = errors.Join(err, checkLinked(r.cast)); err != nil {
		r.folder.reportLogError(errors.Join(err, r.cast.Close()))
		r.cast = nil
	}
}

// checkLinked returns an error if the file was removed. Its content would then be lost.
func checkLinked(file *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if stat.Nlink == 0 {
		return fmt.Errorf("%s was removed", file.Name())
	}
	return nil
}

// Close ends the recording. It writes the incomplete character, if there is one.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	if len(r.part) > 0 {
		r.event("o", string(r.part))
	}
	for _, f := range []*os.File{r.transcript, r.cast} {
		if f != nil {
			f.Close()
		}
	}
}
