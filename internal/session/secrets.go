package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/disk"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// What is typed into a session in secret is hidden in all that it prints from then on. Until the session ends the values are in its folder, sealed with a key that is
// beside the folders: whoever writes the log, also after a crash, has them.

// MaxSecret is how many bytes can be typed in secret at once: a terminal takes no longer line.
const MaxSecret = 4 << 10

// maxSecrets is how many values are hidden in one session.
const maxSecrets = secret.MaxCount

const secretsName = "secrets"

// CheckSecret refuses what can't be typed in secret. The error does not tell it.
func CheckSecret(v secret.Value) error {
	wrong := func(format string, a ...any) error {
		return fault.New(fault.Invalid, "use secret", "", format, a...)
	}
	switch text := v.Reveal(); {
	case len(text) >= MaxSecret:
		return wrong("it has %d bytes, more than %d", len(text), MaxSecret-1)
	case len(strings.TrimSpace(text)) < secret.MinHidden:
		return wrong("it has fewer than %d characters: so short a text can't be hidden in what is printed", secret.MinHidden)
	case !utf8.ValidString(text):
		return wrong("it is not UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return wrong("it holds a control character, or more than one line")
	}
	return nil
}

// Hide has a value be hidden in what the session prints from now on.
func (f Folder) Hide(v secret.Value) error {
	values, err := f.secrets()
	if err != nil {
		return err
	}
	for _, other := range values {
		if other.Reveal() == v.Reveal() {
			return nil
		}
	}
	if len(values) >= maxSecrets {
		return fault.Newf(fault.Exhausted, "%d secrets were typed into it already", len(values)).WithHint("pty_spawn another")
	}
	key, err := f.key()
	if err != nil {
		return err
	}
	var sealed [][]byte
	for _, v := range append(values, v) {
		sealed = append(sealed, key.Seal(f.id(), secret.Secret{Name: secretsName, Value: v}))
	}
	return f.write(secretsName, sealed)
}

func (f Folder) key() (*secret.Key, error) { return secret.OpenKey(filepath.Dir(string(f))) }
func (f Folder) id() string                { return filepath.Base(string(f)) }

// secrets are the values that are hidden.
func (f Folder) secrets() ([]secret.Value, error) {
	var sealed [][]byte
	if err := f.read(secretsName, &sealed); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	key, err := f.key()
	if err != nil {
		return nil, err
	}
	var values []secret.Value
	for _, b := range sealed {
		s, err := key.Open(f.id(), secret.Secret{Name: secretsName}, b)
		if err != nil {
			return nil, err
		}
		values = append(values, s.Value)
	}
	return values, nil
}

// HideIn hides in lines of the screen what was typed into the session in secret: a program can put it together there by moving the cursor.
func (f Folder) HideIn(lines []string) ([]string, error) {
	values, err := f.secrets()
	if err != nil || len(values) == 0 {
		return lines, err
	}
	r := secret.NewRedactor(values...)
	for i, line := range lines {
		lines[i] = r.Text(line)
	}
	return lines, nil
}

// FromPerson is where a secret comes from that a person typed.
const FromPerson = "person"

const typedName = "secret.person"

// NoteTyped notes that a person typed a secret.
func (f Folder) NoteTyped() error { return f.write(typedName, true) }

// TakeTyped tells whether a person typed one since this was last asked.
func (f Folder) TakeTyped() (bool, error) {
	err := os.Remove(f.path(typedName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Forget forgets them, when nothing more is printed.
func (f Folder) Forget() error {
	if err := os.Remove(f.path(secretsName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Hider hides in a stream of what a session prints what was typed into it in secret, also after the stream began. It is for one goroutine; what is below it is written to
// by another one too, not at once.
type Hider struct {
	folder Folder
	to     writer
	stamp  disk.Stamp     // of the file of the values, the zero one where there was none yet
	stream *secret.Writer // nil: there is nothing to hide
	broken bool
}

// writer is a function that takes what is written.
type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// NewHider begins a stream. It must be closed, which passes on what is held.
func (f Folder) NewHider(to func(b []byte)) *Hider { return &Hider{folder: f, to: to} }

// unknown is printed in place of all output where what is to be hidden is not known any more.
const unknown = "[pty-mcp] output withheld: what is to be hidden in it can't be read\n"

// Write takes a piece of the stream.
func (h *Hider) Write(b []byte) {
	// What is printed because of a secret is printed after the file of it was made.
	if now, err := disk.StampOf(h.folder.path(secretsName)); err == nil && now != h.stamp || err != nil && !errors.Is(err, fs.ErrNotExist) {
		values, err := h.folder.secrets()
		if err != nil {
			if !h.broken {
				h.broken = true
				h.to([]byte(unknown))
			}
			return
		}
		if h.stream == nil {
			h.stream = (*secret.Redactor)(nil).Writer(h.to)
		}
		h.stream.Use(secret.NewRedactor(values...))
		h.stamp, h.broken = now, false
	}
	if h.stream != nil {
		h.stream.Write(b)
	} else {
		h.to(b)
	}
}

// Close passes on what is held.
func (h *Hider) Close() {
	if h.stream != nil {
		h.stream.Close()
	}
}
