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

// Secrets that are typed into a session are redacted in its later output. Until the session ends,
// its folder contains the secrets, encrypted with a key in the parent folder. So after a crash, the
// process that continues the log can still redact them.

// MaxSecret limits the size of a secret to MaxSecret-1 bytes. Terminals do not accept longer lines.
const MaxSecret = 4 << 10

// maxSecrets is the maximum number of secrets per session.
const maxSecrets = secret.MaxCount

const secretsName = "secrets"

// CheckSecret checks a secret. The error does not contain the secret.
func CheckSecret(v secret.Value) error {
	wrong := func(format string, a ...any) error {
		return fault.New(fault.Invalid, "use secret", "", format, a...)
	}
	switch text := v.Reveal(); {
	case len(text) >= MaxSecret:
		return wrong("it has %d bytes, more than %d", len(text), MaxSecret-1)
	case len(strings.TrimSpace(text)) < secret.MinHidden:
		return wrong("it has fewer than %d characters: it is too short to hide in output", secret.MinHidden)
	case !utf8.ValidString(text):
		return wrong("it is not UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return wrong("it contains a control character, or more than one line")
	}
	return nil
}

// AddSecret stores a secret, so that later output of the session is redacted.
func (f Folder) AddSecret(v secret.Value) error {
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
		return fault.Newf(fault.Exhausted, "the limit of %d secrets of a session is reached", len(values)).WithHint("pty_spawn another")
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

// secrets returns the secrets of the session.
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

// RedactLines redacts secrets in the lines of a screen. Redacting the output is not enough: a
// program can assemble a secret on the screen by moving the cursor.
func (f Folder) RedactLines(lines []string) ([]string, error) {
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

// FromPerson is the value of Request.From for a secret that a person typed.
const FromPerson = "person"

const typedName = "secret.person"

// MarkTyped records that a person typed a secret.
func (f Folder) MarkTyped() error { return f.write(typedName, true) }

// ConsumeTyped reports whether a person has typed a secret since the last call.
func (f Folder) ConsumeTyped() (bool, error) {
	err := os.Remove(f.path(typedName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RemoveSecrets removes the secrets of the session. Call it when there is no more output.
func (f Folder) RemoveSecrets() error {
	if err := os.Remove(f.path(secretsName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Redactor is a writer that redacts the secrets of a session in a stream of output. It also redacts
// secrets that are added later. A Redactor is not safe for concurrent use.
type Redactor struct {
	folder Folder
	to     writer
	stamp  disk.Stamp     // stamp of the file of secrets; zero: there was no file
	stream *secret.Writer // nil: there are no secrets
	broken bool
}

// writer turns a function into an io.Writer.
type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// NewRedactor returns a Redactor that calls a function with its output. The caller must close the
// Redactor.
func (f Folder) NewRedactor(to func(b []byte)) *Redactor { return &Redactor{folder: f, to: to} }

// unknown replaces all output while the secrets can't be read.
const unknown = "[pty-mcp] output withheld: can't read the secrets to hide in it\n"

// Write writes a part of the stream.
func (h *Redactor) Write(b []byte) {
	// AddSecret writes the file before the secret is typed. So a program can't print a secret
	// earlier.
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

// Close writes the remaining output that Write held back.
func (h *Redactor) Close() {
	if h.stream != nil {
		h.stream.Close()
	}
}
