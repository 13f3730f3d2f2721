package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Event is a line of events.jsonl. What was typed is not in it, but how much.
type Event struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // spawn, write, attach, detach, handoff, takeover, recover, secret, resize, signal, close or exit
	Session string    `json:"session_id"`
	Owner   string    `json:"owner,omitempty"`
	Client  string    `json:"client_id,omitempty"`
	From    string    `json:"from_client_id,omitempty"`   // of a takeover
	Target  string    `json:"target_client_id,omitempty"` // of a handoff
	Reason  string    `json:"reason,omitempty"`
	Command string    `json:"command,omitempty"`
	Bytes   int       `json:"bytes,omitempty"`
	Cols    int       `json:"cols,omitempty"`
	Rows    int       `json:"rows,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Code    *int      `json:"exit_code,omitempty"`
}

// The files of a session's log, in a folder of its id in Spec.LogFolder.
const (
	TranscriptName = "transcript.log" // all that was printed, as it was
	EventsName     = "events.jsonl"
	CastName       = "session.cast" // what was printed when, as asciinema v2
)

// Note writes an event of a session into its log, if it has one. A log that can't be written stops nothing: State.LogError tells of it, once.
func (f Folder) Note(s Spec, e Event) {
	if s.LogFolder == "" {
		return
	}
	e.Time, e.Session, e.Owner = time.Now().UTC(), s.ID, s.Owner
	b, err := json.Marshal(e)
	if err == nil {
		err = f.append(s, EventsName, append(b, '\n'))
	}
	f.logFailed(err)
}

// Note is Folder.Note of a session.
func (m *Manager) Note(i Info, e Event) { i.Folder.Note(i.Spec, e) }

// append writes to a file of the log at once, so that lines of several processes do not mix.
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
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() { // in something else who writes may have to wait
		file.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	return file, nil
}

const logErrorName = "log.error"

// logFailed tells once that the log can't be written.
func (f Folder) logFailed(err error) {
	if err == nil {
		return
	}
	file, made := os.OpenFile(f.path(logErrorName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if made != nil {
		return
	}
	file.WriteString(err.Error()) // of which nothing may fit on the disk: that the file is there says enough
	file.Close()
	if log, err2 := os.OpenFile(f.path("keeper.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err2 == nil {
		fmt.Fprintf(log, "the log of the session can't be written, the session goes on without: %v\n", err)
		log.Close()
	}
}

func (f Folder) logError() string {
	b, err := os.ReadFile(f.path(logErrorName))
	if err == nil && len(b) == 0 {
		return "it can't be written, and there is no space to keep why"
	}
	return string(b)
}

// Recorder writes what a session prints into its log: as it is, and as a recording. The nil one writes nothing. It is for one goroutine at a time; several processes
// may have one each, if only one has something to write.
type Recorder struct {
	folder     Folder
	began      time.Time
	transcript *os.File // nil: it can't be written
	cast       *os.File
	part       []byte // of a character that is not whole yet
}

// Record opens the log of a session, nil where none is asked for or it can't be written.
func (f Folder) Record(s Spec) *Recorder {
	if s.LogFolder == "" {
		return nil
	}
	r := &Recorder{folder: f, began: s.CreatedAt}
	if err := os.MkdirAll(filepath.Join(s.LogFolder, s.ID), 0o700); err != nil {
		f.logFailed(err)
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
	f.logFailed(errors.Join(err1, err2))
	return r
}

// Write records what was printed.
func (r *Recorder) Write(b []byte) {
	if r == nil {
		return
	}
	if r.transcript != nil {
		_, err := r.transcript.Write(b)
		if err = errors.Join(err, there(r.transcript)); err != nil {
			r.folder.logFailed(errors.Join(err, r.transcript.Close()))
			r.transcript = nil
		}
	}
	text := append(r.part, b...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= n
			}
			break
		}
	}
	r.event("o", string(text[:whole]))
	r.part = append([]byte(nil), text[whole:]...)
}

// Resize records another size.
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
	if err = errors.Join(err, there(r.cast)); err != nil {
		r.folder.logFailed(errors.Join(err, r.cast.Close()))
		r.cast = nil
	}
}

// there tells whether a file still has its name: what is written to one that was removed is lost.
func there(file *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if stat.Nlink == 0 {
		return fmt.Errorf("%s was removed", file.Name())
	}
	return nil
}

// Close ends the recording.
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
